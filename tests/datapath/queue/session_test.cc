// SPDX-License-Identifier: Apache-2.0
// Who is polled and who is parked, and that a parked program is heard.
#include "pipeline/datapath/worker/schedule.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "pipeline/datapath/thread/sleeper.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {
namespace {

constexpr Nanos kParkAfter{100'000};

/// A program of one worker.
struct Program {
  Program() { sleeper_flag().store(0); }
  ~Program() { close(fd); }
  std::atomic_ref<uint32_t> sleeper_flag() { return std::atomic_ref(doorbells->sleeping.value); }
  /// As the shim does it.
  void Ring() {
    if (!rings::Ring(*doorbells, 5)) return;
    const uint64_t one = 1;
    EXPECT_EQ(write(fd, &one, sizeof(one)), 8);
  }

  std::unique_ptr<uroce_doorbells> doorbells = std::make_unique<uroce_doorbells>();
  int fd = eventfd(0, EFD_NONBLOCK);
  Session session{1, {{.doorbells = doorbells.get(), .wake_fd = fd}}};
};

class SessionListTest : public testing::Test {
 protected:
  bool IsPolled(const Program& program) {
    return std::ranges::count(list_.polled(), &program.session, &WorkerSession::session) == 1;
  }
  /// A turn's look around at `now`.
  void Tend(Nanos now) {
    list_.ParkIdle(now);
    for (const int fd : sleeper_.Look()) list_.OnEvent(fd, now);
  }
  WorkerSession& Add(Program& program, Nanos now = Nanos(0)) {
    sleeper_.WatchEvents(program.fd);
    return list_.Add(&program.session, now);
  }

  Sleeper sleeper_;
  SessionList list_{0, kParkAfter};
  Program a_;
  Program b_;
};

TEST_F(SessionListTest, WhoIsStillIsParkedAndWhoIsTouchedIsNot) {
  WorkerSession& a = Add(a_);
  Add(b_);
  Tend(Nanos(0));
  EXPECT_EQ(list_.polled().size(), 2u);
  list_.NoteWork(a, Nanos(90'000));
  Tend(Nanos(100'000));
  EXPECT_TRUE(IsPolled(a_));
  EXPECT_FALSE(IsPolled(b_));
  EXPECT_EQ(a_.sleeper_flag(), 0u);
  EXPECT_EQ(b_.sleeper_flag(), 1u) << "its program is to write the eventfd";
  EXPECT_TRUE(list_.any_parked());
}

TEST_F(SessionListTest, ARingAndAPacketBringAParkedOneBack) {
  WorkerSession& a = Add(a_);
  Add(b_);
  Tend(Nanos(200'000));
  ASSERT_TRUE(list_.polled().empty());
  list_.NoteWork(a, Nanos(200'001));
  EXPECT_TRUE(IsPolled(a_));
  EXPECT_EQ(a_.sleeper_flag(), 0u);
  b_.Ring();
  Tend(Nanos(200'002));
  EXPECT_TRUE(IsPolled(b_));
  EXPECT_EQ(b_.sleeper_flag(), 0u);
  EXPECT_TRUE(rings::HasRung(*b_.doorbells)) << "for the next turn to take";
  EXPECT_FALSE(list_.any_parked());
}

TEST_F(SessionListTest, WhoRingsWhileItIsParkedIsPolledOn) {
  Add(a_);
  a_.Ring();
  Tend(Nanos(200'000));
  EXPECT_TRUE(IsPolled(a_));
  EXPECT_EQ(a_.sleeper_flag(), 0u);
}

TEST_F(SessionListTest, OnlyThePolledHearOfASleep) {
  WorkerSession& a = Add(a_);
  Add(b_);
  Tend(Nanos(200'000));
  list_.NoteWork(a, Nanos(200'000));
  b_.sleeper_flag() = 7;  // Would be written over.
  EXPECT_TRUE(list_.AnnounceSleep());
  EXPECT_EQ(a_.sleeper_flag(), 1u);
  list_.AnnounceAwake();
  EXPECT_EQ(a_.sleeper_flag(), 0u);
  EXPECT_EQ(b_.sleeper_flag(), 7u);
  a_.Ring();
  EXPECT_FALSE(list_.AnnounceSleep());
}

TEST_F(SessionListTest, AProgramWithoutAnEventfdIsNeverParked) {
  Session mute(2, {{.doorbells = a_.doorbells.get()}});
  list_.Add(&mute, Nanos(0));
  Tend(Nanos(1'000'000));
  EXPECT_EQ(list_.polled().size(), 1u);
}

TEST_F(SessionListTest, WhoLeavesIsForgottenParkedOrPolled) {
  Add(a_);
  WorkerSession& b = Add(b_);
  Tend(Nanos(200'000));
  list_.NoteWork(b, Nanos(200'000));
  list_.Remove(&b_.session);
  list_.Remove(&a_.session);
  a_.Ring();
  Tend(Nanos(200'001));
  EXPECT_TRUE(list_.polled().empty());
  EXPECT_FALSE(list_.any_parked());
  EXPECT_EQ(list_.Find(&a_.session), nullptr);
}

/// A worker that parks and sleeps as soon as it may.
void RunUntilTaken(Program& program, uint32_t rounds, std::atomic<uint32_t>& taken) {
  Sleeper sleeper;
  SessionList list(0, Nanos(2));
  sleeper.WatchEvents(program.fd);
  list.Add(&program.session, Nanos(0));
  for (Nanos now(0); taken != rounds; now = now + Nanos(1)) {
    for (WorkerSession* session : list.polled()) {
      const uint32_t rung = rings::Take(*session->doorbells, [](uint32_t) {});
      if (rung != 0) session->last_work = now;
      taken += rung;
    }
    list.ParkIdle(now);
    for (const int fd : sleeper.Look()) list.OnEvent(fd, now);
    if (now.count() % 3 != 0 || taken == rounds) continue;
    if (list.AnnounceSleep()) {
      for (const int fd : sleeper.Sleep(kNever)) list.OnEvent(fd, now);
    }
    list.AnnounceAwake();
  }
  list.Remove(&program.session);
}

// A lost wake-up hangs: the worker sleeps without a limit, and the program rings no more.
TEST(SessionListRaceTest, EveryRingIsTakenWhetherPolledParkedOrAsleep) {
  constexpr uint32_t kRounds = 400;
  Program program;
  std::atomic<uint32_t> taken{0};
  std::thread worker([&] { RunUntilTaken(program, kRounds, taken); });
  for (uint32_t i = 1; i <= kRounds; ++i) {
    program.Ring();
    while (taken < i) std::this_thread::yield();
    for (uint32_t pause = i % 7; pause != 0; --pause) std::this_thread::yield();
  }
  worker.join();
  EXPECT_EQ(taken, kRounds);
}

}  // namespace
}  // namespace uroce::datapath
