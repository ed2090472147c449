// SPDX-License-Identifier: Apache-2.0
// Replies that wait: when they go out, and what ends the wait.
#include "nic/base/reply.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {
namespace {

constexpr DeferredReply::Pace kFast{.first = Nanos(1'000), .last = Nanos(4'000)};

class DeferredReplyTest : public testing::Test {
 protected:
  void TurnUntilSent() {
    while (!sent_) loop_.RunOnce(10);
  }

  EventLoop loop_;
  std::optional<absl::Status> sent_;
  size_t sent_bytes_ = 0;
  std::optional<DeferredReply> deferred_{std::in_place, loop_,
                                         [this](const absl::Status& status, Reply&& reply) {
                                           ASSERT_FALSE(sent_) << "twice";
                                           ASSERT_FALSE(deferred_->is_pending());
                                           sent_ = status;
                                           sent_bytes_ = reply.body().size();
                                         }};
};

TEST_F(DeferredReplyTest, IsPendingUntilItIsComplete) {
  EXPECT_FALSE(deferred_->is_pending());
  deferred_->Defer([] {});
  EXPECT_TRUE(deferred_->is_pending());
  deferred_->Complete([](Reply& reply) {
    reply.Add(uroce_handle{7, 0});
    return absl::OkStatus();
  });
  EXPECT_FALSE(deferred_->is_pending());
  ASSERT_TRUE(sent_);
  EXPECT_TRUE(sent_->ok());
  EXPECT_EQ(sent_bytes_, sizeof(uroce_handle));
}

TEST_F(DeferredReplyTest, APollLooksUntilItIsReady) {
  int looks = 0;
  deferred_->Poll(
      kFast, [&] { return ++looks == 5; }, [](Reply&) { return absl::NotFoundError("gone"); });
  EXPECT_EQ(looks, 0) << "not at once";
  EXPECT_TRUE(deferred_->is_pending());
  TurnUntilSent();
  EXPECT_EQ(looks, 5);
  EXPECT_TRUE(absl::IsNotFound(*sent_));
}

TEST_F(DeferredReplyTest, AWaitMayFollowAWait) {
  bool is_first_over = false;
  deferred_->Repeat(kFast, [&] {
    deferred_->Poll(
        kFast, [] { return true; }, [](Reply&) { return absl::OkStatus(); });
    return is_first_over = true;
  });
  TurnUntilSent();
  EXPECT_TRUE(is_first_over);
}

TEST_F(DeferredReplyTest, WhatIsUnderWayIsCancelledAtTheEnd) {
  int cancelled = 0;
  int looks = 0;
  deferred_->Defer([&] { ++cancelled; });
  deferred_.reset();
  EXPECT_EQ(cancelled, 1);
  deferred_.emplace(loop_, [](const absl::Status&, Reply&&) { FAIL(); });
  deferred_->Repeat(kFast, [&] { return ++looks == 1; });
  deferred_.reset();
  bool is_over = false;
  loop_.After(Nanos(2'000'000), [&] { is_over = true; });
  while (!is_over) loop_.RunOnce(10);
  EXPECT_EQ(looks, 0);
}

TEST_F(DeferredReplyTest, WhatIsOverIsNotCancelled) {
  int cancelled = 0;
  deferred_->Defer([&] { ++cancelled; });
  deferred_->Release();
  EXPECT_FALSE(deferred_->is_pending());
  deferred_.reset();
  EXPECT_EQ(cancelled, 0);
}

}  // namespace
}  // namespace uroce::nic
