// SPDX-License-Identifier: Apache-2.0
// The daemon's own end while programs end.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <memory>

#include "nic/objects/numbers.h"
#include "nic/settings/config.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"

namespace uroce::nic {
namespace {

// The control thread ends so many in pieces.
constexpr uint32_t kQueuePairs = 4096;

// HandDaemon turns the loop once more when the server has gone: a callback that the server left
// there would read freed memory.
TEST(DaemonEndTest, EndsWhileAProgramEnds) {
  HandDaemon daemon{Limits()};
  auto client = std::make_unique<ControlClient>(daemon.socket_path());
  daemon.Call(*client, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  const uint32_t context =
      daemon.Call(*client, UROCE_OPEN_CONTEXT, uroce_open_context{0, 0}).handle();
  const uint32_t pd = daemon.Call(*client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
  const uint32_t cq =
      daemon.Call(*client, UROCE_CREATE_CQ, uroce_create_cq{context, 16, 1, UROCE_NONE, 0})
          .handle();
  for (uint32_t i = 0; i < kQueuePairs; ++i) {
    const Answer answer = daemon.Call(
        *client, UROCE_CREATE_QP,
        uroce_create_qp{pd, IBV_QPT_RC, cq, cq, 0x77, 0, {1, 1, 1, 1, 0}, 0, UROCE_NONE});
    ASSERT_EQ(answer.error, 0) << "queue pair " << i;
  }
  ASSERT_EQ(daemon.server().connection_count(), 1u);
  client.reset();
  daemon.Turn(-1);
}

}  // namespace
}  // namespace uroce::nic
