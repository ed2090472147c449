// SPDX-License-Identifier: Apache-2.0
// What a user's objects take of the daemon's own memory counts in bytes.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <memory>

#include "absl/strings/match.h"
#include "nic/objects/nic.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kBudget = 4 << 20;

class OwnBytesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new HandDaemon({.own_bytes_per_user = kBudget}); }
  static void TearDownTestSuite() { delete daemon_; }

  void SetUp() override {
    client_ = std::make_unique<ControlClient>(daemon_->socket_path());
    ASSERT_EQ(Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0}).error, 0);
    context_ = Call(UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
    pd_ = Call(UROCE_ALLOC_PD, uroce_handle{context_, 0}).handle();
    cq_ = Call(UROCE_CREATE_CQ, uroce_create_cq{context_, 16, 1, UROCE_NONE, 0}).handle();
  }
  void TearDown() override {
    client_.reset();
    daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
    EXPECT_EQ(Used(), 0u);
  }
  template <typename T>
  Answer Call(uint32_t command, const T& body) {
    return daemon_->Call(*client_, command, body);
  }
  Answer MakeQueuePair(uint32_t works, uint32_t inline_bytes) {
    return Call(UROCE_CREATE_QP,
                uroce_create_qp{pd_, IBV_QPT_RC, cq_, cq_, 1, 0, {works, 1, 1, 1, inline_bytes}});
  }
  /// Makes such queue pairs until the daemon refuses one, and returns how many it made.
  uint32_t MakeAll(uint32_t works, uint32_t inline_bytes) {
    for (uint32_t made = 0;; ++made) {
      const Answer answer = MakeQueuePair(works, inline_bytes);
      if (answer.error == 0) continue;
      EXPECT_TRUE(absl::StrContains(answer.text, "--max-own-bytes-per-user")) << answer.text;
      return made;
    }
  }
  static uint64_t Used() { return daemon_->nic().user(geteuid()).own_bytes.used; }

  static inline HandDaemon* daemon_;
  std::unique_ptr<ControlClient> client_;
  uint32_t context_ = 0, pd_ = 0, cq_ = 0;
};

TEST_F(OwnBytesTest, AQueuePairCountsForTheWorksThatItHolds) {
  const uint64_t before = Used();
  ASSERT_EQ(MakeQueuePair(1, 0).error, 0);
  const uint64_t small = Used() - before;
  ASSERT_EQ(MakeQueuePair(128, 512).error, 0);
  const uint64_t large = Used() - before - small;
  EXPECT_GT(large, small + 128 * 512);
  EXPECT_LT(large, small + 2 * 128 * 512);
}

TEST_F(OwnBytesTest, TheBudgetEndsBeforeTheNumberOfObjects) {
  const uint32_t made = MakeAll(128, 512);
  EXPECT_GT(made, 20u);
  EXPECT_LT(made, kBudget / (128 * 512));
  EXPECT_LE(Used(), kBudget);
}

TEST_F(OwnBytesTest, WhatEndsLeavesRoomForOthers) {
  const Answer first = MakeQueuePair(128, 512);
  MakeAll(128, 512);
  const uint64_t used = Used();
  ASSERT_EQ(Call(UROCE_DESTROY_QP, uroce_handle{first.handle(), 0}).error, 0);
  EXPECT_EQ(MakeQueuePair(128, 512).error, 0);
  EXPECT_EQ(Used(), used);
}

// The table of a program's address handles has room for all of them from the first on.
TEST_F(OwnBytesTest, ATableOfAddressHandlesCountsWhole) {
  const uint64_t before = Used();
  uroce_ah_attr way{};
  way.is_global = way.port_num = way.sgid_index = 1;
  way.hop_limit = 64;
  way.dgid[10] = way.dgid[11] = 0xff;
  way.dgid[12] = 10;
  way.dgid[15] = 1;
  ASSERT_EQ(Call(UROCE_CREATE_AH, uroce_create_ah{pd_, way}).error, 0);
  EXPECT_GT(Used() - before, 32'000 * sizeof(void*));
}

}  // namespace
}  // namespace uroce::nic
