// SPDX-License-Identifier: Apache-2.0
// Many fds behind one, by edges.
#include "pipeline/port/frames.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace uroce::drivers {
namespace {

class ReceiveWakeTest : public testing::Test {
 protected:
  ReceiveWakeTest() : event_(eventfd(0, EFD_NONBLOCK)) {}
  ~ReceiveWakeTest() override { close(event_); }
  void Signal() const {
    const uint64_t one = 1;
    ASSERT_EQ(write(event_, &one, sizeof(one)), ssize_t{sizeof(one)});
  }
  bool IsReadable() const {
    pollfd entry{.fd = wake_.fd(), .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) == 1;
  }

  ReceiveWake wake_;
  const int event_;
};

TEST_F(ReceiveWakeTest, AnEdgeWakesUntilItIsDrained) {
  ASSERT_TRUE(wake_.Add(event_));
  EXPECT_FALSE(IsReadable());
  Signal();
  EXPECT_TRUE(IsReadable());
  wake_.Drain();
  EXPECT_FALSE(IsReadable()) << "the event's counter is never read, and yet nothing new came";
}

TEST_F(ReceiveWakeTest, EachSignalIsAnEdgeThoughTheOneBeforeIsUnread) {
  ASSERT_TRUE(wake_.Add(event_));
  for (int i = 0; i < 3; ++i) {
    Signal();
    EXPECT_TRUE(IsReadable());
    wake_.Drain();
  }
}

TEST_F(ReceiveWakeTest, WhatWasRemovedOrIsNoFdDoesNotWake) {
  EXPECT_FALSE(wake_.Add(-1));
  ASSERT_TRUE(wake_.Add(event_));
  wake_.RemoveAll();
  Signal();
  EXPECT_FALSE(IsReadable());
}

TEST_F(ReceiveWakeTest, WhatADriverHasNotFoundYetKeepsAWorkerAwakeAfterItsEdge) {
  ASSERT_TRUE(wake_.AddLate(event_));
  EXPECT_FALSE(wake_.IsLate());
  Signal();
  wake_.Drain();
  EXPECT_TRUE(wake_.IsLate());
  uint64_t count = 0;
  ASSERT_EQ(read(event_, &count, sizeof(count)), ssize_t{sizeof(count)});
  EXPECT_FALSE(wake_.IsLate());
  Signal();
  wake_.RemoveAll();
  EXPECT_FALSE(wake_.IsLate());
}

TEST_F(ReceiveWakeTest, OnlyAnEdgeWakesWhereTheDriverFindsFramesAtOnce) {
  ASSERT_TRUE(wake_.Add(event_));
  Signal();
  EXPECT_FALSE(wake_.IsLate());
}

}  // namespace
}  // namespace uroce::drivers
