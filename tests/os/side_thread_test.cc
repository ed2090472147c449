// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/side_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace uroce::drivers {
namespace {

constexpr std::chrono::seconds kLong{60};

/// Says where and when it ends.
struct Mortal {
  explicit Mortal(std::function<void()> at_end) : on_end(std::move(at_end)) {}
  Mortal(Mortal&& other) noexcept : on_end(std::exchange(other.on_end, nullptr)) {}
  ~Mortal() {
    if (on_end) on_end();
  }
  std::function<void()> on_end;
};

TEST(SideThreadTest, ThingsEndOnItsOwnThread) {
  SideThread thread;
  std::promise<std::thread::id> ended_on;
  thread.End(std::make_shared<Mortal>([&] { ended_on.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ended_on.get_future().get(), std::this_thread::get_id());
}

TEST(SideThreadTest, WhoGivesSomethingDoesNotWaitForItsEnd) {
  std::promise<void> go;
  {
    SideThread thread;
    thread.End(std::make_shared<Mortal>([wait = go.get_future().share()] { wait.wait(); }));
    thread.End(std::make_shared<Mortal>([] {}));
  }
  EXPECT_FALSE(SideThread::AwaitAll(std::chrono::milliseconds(20)));
  go.set_value();
  EXPECT_TRUE(SideThread::AwaitAll(kLong));
}

TEST(SideThreadTest, OneThatItsOwnWorkHoldsLastIsAwaited) {
  std::promise<void> go;
  {
    const auto thread = std::make_shared<SideThread>();
    thread->Do([thread, wait = go.get_future().share()] { wait.wait(); });
  }
  EXPECT_FALSE(SideThread::AwaitAll(std::chrono::milliseconds(20)));
  go.set_value();
  EXPECT_TRUE(SideThread::AwaitAll(kLong));
}

TEST(SideThreadTest, WhatIsLeftWhenItGoesIsDoneInOrder) {
  std::vector<int> ended;
  {
    SideThread thread;
    for (int i = 0; i < 100; ++i) {
      thread.End(std::make_shared<Mortal>([&ended, i] { ended.push_back(i); }));
    }
  }
  ASSERT_TRUE(SideThread::AwaitAll(kLong));
  ASSERT_EQ(ended.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
}

TEST(SideThreadTest, WorkAndAllThatItHoldsEndOnTheThread) {
  std::atomic<std::thread::id> worked_on, ended_on;
  {
    SideThread thread;
    auto held = std::make_shared<Mortal>([&] { ended_on = std::this_thread::get_id(); });
    thread.Do([&worked_on, held = std::move(held)] { worked_on = std::this_thread::get_id(); });
  }
  ASSERT_TRUE(SideThread::AwaitAll(kLong));
  EXPECT_NE(worked_on.load(), std::this_thread::get_id());
  EXPECT_EQ(ended_on.load(), worked_on.load());
}

TEST(SideThreadTest, AnObjectEndsOnItsThreadAlsoIfAnotherReleasesItLast) {
  std::atomic<std::thread::id> ended_on;
  {
    const auto thread = std::make_shared<SideThread>();
    const auto object =
        SideThread::MakeEndingOn(thread, Mortal([&] { ended_on = std::this_thread::get_id(); }));
  }
  ASSERT_TRUE(SideThread::AwaitAll(kLong));
  EXPECT_NE(ended_on.load(), std::thread::id());
  EXPECT_NE(ended_on.load(), std::this_thread::get_id());
}

TEST(SideThreadTest, WhatItHoldsIsKeptWhileWorkHangs) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  std::promise<void> go;
  {
    SideThread thread(std::move(held));
    thread.Do([wait = go.get_future().share()] { wait.wait(); });
  }
  EXPECT_FALSE(watch.expired());
  go.set_value();
  ASSERT_TRUE(SideThread::AwaitAll(kLong));
  while (!watch.expired()) std::this_thread::yield();
}

TEST(SideThreadTest, AnIdleThreadEndsAndAnotherTakesItsPlace) {
  SideThread thread;
  std::promise<void> first, second;
  thread.Do([&] { first.set_value(); });
  first.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // Longer than it stays idle.
  thread.Do([&] { second.set_value(); });
  EXPECT_EQ(second.get_future().wait_for(kLong), std::future_status::ready);
}

}  // namespace
}  // namespace uroce::drivers
