// SPDX-License-Identifier: Apache-2.0
// Requests to a thread that works in turns. Nothing here depends on how long anything takes.
#include "pipeline/datapath/thread/controlled_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace uroce::datapath {
namespace {

class ControlledThreadTest : public testing::Test {
 protected:
  ~ControlledThreadTest() override { thread_.Stop(); }

  void Start() {
    thread_.Start([this] {
      id_ = std::this_thread::get_id();
      while (!thread_.must_stop()) {
        thread_.Serve();
        ++turns_;
      }
    });
  }

  std::atomic<uint32_t> wakes_{0};
  std::atomic<uint64_t> turns_{0};
  std::atomic<std::thread::id> id_;
  ControlledThread thread_{[this] { ++wakes_; }};
};

TEST_F(ControlledThreadTest, BeforeStartAndAfterStopWorkRunsOnTheCallersThread) {
  std::thread::id ran;
  const auto note_thread = [&] { ran = std::this_thread::get_id(); };
  thread_.Run(note_thread);
  EXPECT_EQ(ran, std::this_thread::get_id());
  Start();
  thread_.Stop();
  ran = {};
  thread_.Run(note_thread);
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(ControlledThreadTest, WorkRunsOnTheThreadAndIsDoneWhenRunReturns) {
  Start();
  for (uint32_t i = 1; i <= 100; ++i) {
    std::thread::id ran;
    thread_.Run([&] { ran = std::this_thread::get_id(); });
    EXPECT_EQ(ran, id_.load());
    EXPECT_EQ(wakes_, i) << "it may sleep";
  }
}

TEST_F(ControlledThreadTest, HeldItTakesNoTurnUntilItIsReleased) {
  Start();
  thread_.Hold();
  thread_.AwaitHold();
  const uint64_t turns = turns_;
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(turns_, turns);
  thread_.Release();
  while (turns_ == turns) std::this_thread::yield();
}

TEST_F(ControlledThreadTest, WhatDoesNotRunIsHeldAtOnce) {
  thread_.Hold();
  thread_.AwaitHold();
  thread_.Release();
  bool has_run = false;
  thread_.Run([&] { has_run = true; });
  EXPECT_TRUE(has_run) << "the hold is over";
  EXPECT_EQ(wakes_, 0u);
}

}  // namespace
}  // namespace uroce::datapath
