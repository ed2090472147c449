// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/worker_impl.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "pipeline/os/fd.h"

namespace uroce::datapath {
namespace {

constexpr Nanos kParkAfter{100'000};

/// A worker with one program, which is parked when it has been still for kParkAfter.
class SleepControlTest : public testing::Test {
 protected:
  SleepControlTest() {
    time_.Begin(Nanos(1'000'000));
    sessions_.Add(&session_, time_.now());
    sleep_.sleeper().WatchEvents(wake_fd_.get());
  }
  ~SleepControlTest() override { sessions_.Remove(&session_); }

  void Pass(Nanos time) {
    time_.Begin(time_.now() + time);
    sleep_.TendPrograms();
  }
  bool IsSleepAnnounced() const { return doorbells_->sleeping.value != 0; }
  /// As the shim does it: true where the program has found the worker asleep.
  bool RingAndWake() {
    const bool sleeps = rings::Ring(*doorbells_, 3);
    const uint64_t one = 1;
    if (sleeps) {
      EXPECT_EQ(write(wake_fd_.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
    }
    return sleeps;
  }

  std::unique_ptr<uroce_doorbells> doorbells_ = std::make_unique<uroce_doorbells>();
  const Fd wake_fd_{eventfd(0, EFD_NONBLOCK)};
  Session session_{1, {{.doorbells = doorbells_.get(), .wake_fd = wake_fd_.get()}}};
  TurnTime time_;
  SessionList sessions_{0, kParkAfter};
  SleepControl sleep_{sessions_, time_};
};

TEST_F(SleepControlTest, ProgramsLearnOfASleepAndOfItsEnd) {
  EXPECT_TRUE(sleep_.Announce());
  EXPECT_TRUE(IsSleepAnnounced());
  sleep_.AnnounceAwake();
  EXPECT_FALSE(IsSleepAnnounced());
}

TEST_F(SleepControlTest, ARingBeforeTheAnnouncementForbidsTheSleep) {
  EXPECT_FALSE(RingAndWake()) << "the worker does not sleep";
  EXPECT_FALSE(sleep_.Announce());
}

// Where a wake-up is lost the sleep has no end.
TEST_F(SleepControlTest, AWakeAfterTheAnnouncementEndsTheSleep) {
  ASSERT_TRUE(sleep_.Announce());
  sleep_.Wake();
  sleep_.Sleep(kNever);
  sleep_.AnnounceAwake();
}

TEST_F(SleepControlTest, AProgramThatRingsEndsTheSleep) {
  ASSERT_TRUE(sleep_.Announce());
  std::thread program([this] { EXPECT_TRUE(RingAndWake()); });
  sleep_.Sleep(kNever);
  program.join();
  sleep_.AnnounceAwake();
}

TEST_F(SleepControlTest, AProgramThatIsStillIsParkedAndOneThatRingsIsTakenBack) {
  EXPECT_FALSE(sessions_.any_parked());
  Pass(kParkAfter * 3);
  ASSERT_TRUE(sessions_.any_parked());
  EXPECT_TRUE(IsSleepAnnounced()) << "to it the worker sleeps";
  EXPECT_TRUE(RingAndWake());
  Pass(SessionList::kLookInterval);
  EXPECT_FALSE(sessions_.any_parked());
  EXPECT_FALSE(IsSleepAnnounced());
  EXPECT_EQ(sessions_.polled().size(), 1u);
}

// A look is a system call.
TEST_F(SleepControlTest, ParkedProgramsAreLookedForOnceInAnInterval) {
  Pass(kParkAfter * 3);  // Looks, too.
  ASSERT_TRUE(sessions_.any_parked());
  EXPECT_TRUE(RingAndWake());
  Pass(SessionList::kLookInterval - Nanos(1));
  EXPECT_TRUE(sessions_.any_parked());
  Pass(Nanos(1));
  EXPECT_FALSE(sessions_.any_parked());
}

}  // namespace
}  // namespace uroce::datapath
