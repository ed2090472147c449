// SPDX-License-Identifier: Apache-2.0
// Answers whose fds the kernel does not let out yet: of a daemon without privilege so many may be
// under way as it may have open, and those that programs leave unread are among them.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"

namespace {

int refusals_left = 0;
int refusals = 0;

}  // namespace

// In libc's place: refuses fds as the kernel does.
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_controllen != 0 && refusals_left != 0) {
    --refusals_left;
    ++refusals;
    errno = ETOOMANYREFS;
    return -1;
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}

namespace uroce::nic {
namespace {

constexpr int kUnlimited = -1;

class RefusedFdsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new HandDaemon({}); }
  static void TearDownTestSuite() { delete daemon_; }
  void TearDown() override { AwaitConnections(0); }

  RefusedFdsTest() {
    refusals = 0;
    AwaitConnections(1);
  }
  static void AwaitConnections(size_t count) {
    daemon_->TurnUntil([=] { return daemon_->server().connection_count() == count; });
  }
  static void Say(ControlClient& client) {
    const uroce_hello hello{UROCE_ABI_VERSION, 0};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&hello);
    client.Post(UROCE_HELLO, {bytes, bytes + sizeof(hello)});
  }
  /// The next answer; hung up when no connection is left.
  static Answer AwaitAnswer(ControlClient& client) {
    Answer answer;
    daemon_->TurnUntil([&] {
      const bool is_over = daemon_->server().connection_count() == 0;
      return !(answer = client.Receive(MSG_DONTWAIT)).hung_up || is_over;
    });
    return answer;
  }

  static inline HandDaemon* daemon_;
  std::unique_ptr<ControlClient> client_ = std::make_unique<ControlClient>(daemon_->socket_path());
};

TEST_F(RefusedFdsTest, AnAnswerGoesOutOnceItsFdsMay) {
  refusals_left = 3;
  Say(*client_);
  client_->Post(UROCE_LIST_DEVICES, {});  // Not answered before the first.
  const Answer hello = AwaitAnswer(*client_);
  EXPECT_EQ(refusals, 3);
  EXPECT_EQ(hello.error, 0) << hello.text;
  EXPECT_EQ(hello.As<uroce_hello_reply>().abi_version, uint32_t{UROCE_ABI_VERSION});
  EXPECT_GE(hello.fds.size(), 3u);
  EXPECT_FALSE(AwaitAnswer(*client_).body.empty());
  client_.reset();
}

TEST_F(RefusedFdsTest, OthersAreServedMeanwhile) {
  refusals_left = kUnlimited;
  Say(*client_);
  daemon_->TurnUntil([] { return refusals != 0; });
  ControlClient other(daemon_->socket_path());
  AwaitConnections(2);
  const int before = refusals;
  other.Post(UROCE_DUMP, {});  // Too short: an answer without fds.
  EXPECT_EQ(AwaitAnswer(other).error, EINVAL);
  daemon_->TurnUntil([&] { return refusals > before; });  // And the first is tried again.
  refusals_left = 0;
  EXPECT_EQ(AwaitAnswer(*client_).error, 0);
  client_.reset();
  AwaitConnections(1);
}

TEST_F(RefusedFdsTest, AProgramThatLeavesMeanwhileIsForgotten) {
  refusals_left = kUnlimited;
  Say(*client_);
  daemon_->TurnUntil([] { return refusals != 0; });
  client_.reset();
  AwaitConnections(0);
  refusals_left = 0;
}

TEST_F(RefusedFdsTest, AConnectionEndsWhoseFdsNeverMay) {
  refusals_left = kUnlimited;
  Say(*client_);
  AwaitConnections(0);
  EXPECT_GT(refusals, 1);
  refusals_left = 0;
  EXPECT_TRUE(client_->Receive().hung_up);
}

}  // namespace
}  // namespace uroce::nic
