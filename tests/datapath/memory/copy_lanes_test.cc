// SPDX-License-Identifier: Apache-2.0
// The daemon's end of copy lanes, before a program that the test plays.
#include "pipeline/datapath/memory/copy_lanes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/os/credentials.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

using Time = CopyLanes::Time;
constexpr uint32_t kWorkers = 2;
constexpr uint32_t kBytes = 20'000;

/// Lanes, the memory of a program, and a frame's bytes. Both sides use one mapping.
class CopyLanesTest : public testing::Test {
 protected:
  CopyLanesTest() {
    const uint64_t length = CopyLanes::BytesFor(kWorkers);
    const Fd file = *MakeSharedFile("copies", length);
    Mapping mapping = *MapShared(file.get(), length);
    copies_ = reinterpret_cast<uroce_copies*>(mapping.data());
    first_lane_ = reinterpret_cast<uroce_copy_lane*>(copies_ + 1);
    lanes_ = std::make_unique<CopyLanes>(
        *GuardedMapping::Make(std::move(mapping), MappingGuard::kNoOwner), kWorkers);
    std::iota(memory_.begin(), memory_.end(), 0);
    std::iota(frame_.begin(), frame_.end(), 100);
  }
  ~CopyLanesTest() override {
    if (lanes_ != nullptr) lanes_->TakeAll([](CopyJob* job) { delete job; });
  }

  CopyJob* Job(CopyJob::Kind kind, uint32_t length = kBytes) {
    auto* const job = new CopyJob();
    job->kind = kind;
    job->piece_count = job->own_pieces = 1;
    job->pieces[0] = {reinterpret_cast<uint64_t>(memory_.data()), frame_.data(), length};
    job->SetEnd(true);
    return job;
  }
  CopyJob* Post(CopyJob::Kind kind, uint32_t worker = 0) {
    CopyJob* const job = Job(kind);
    EXPECT_TRUE(lanes_->Takes(worker, *job, now_));
    lanes_->Post(worker, job, now_);
    return job;
  }
  /// Takes a job, which the caller need not delete.
  CopyLanes::Taken Take(uint32_t worker = 0) {
    const CopyLanes::Taken taken = lanes_->Take(worker, now_);
    taken_.emplace_back(taken.job);
    return taken;
  }
  uroce_copy_lane& lane(uint32_t worker = 0) const { return first_lane_[worker]; }
  /// Executes what is posted in a slot, as a program does.
  void Serve(uint32_t slot = 0, uint32_t worker = 0) const {
    uroce_copy_lane& its = lane(worker);
    ASSERT_EQ(PhaseOf(slot, worker), UROCE_COPY_POSTED);
    const uroce_copy_request& request = its.requests[slot];
    for (uint32_t i = 0; i < request.piece_count; ++i) {
      const uroce_stage_piece& piece = request.pieces[i];
      auto* const there = reinterpret_cast<uint8_t*>(piece.addr);
      uint8_t* const here = its.data[slot] + piece.offset;
      const bool writes = request.kind == UROCE_STAGE_WRITE;
      std::memcpy(writes ? there : here, writes ? here : there, piece.length);
    }
    its.places[slot].error = 0;
    SetPhase(UROCE_COPY_DONE, slot, worker);
  }
  uint32_t PhaseOf(uint32_t slot = 0, uint32_t worker = 0) const {
    return lane(worker).places[slot].state & UROCE_COPY_PHASE_MASK;
  }
  /// Of the copy that is in the slot.
  void SetPhase(uroce_copy_phase phase, uint32_t slot = 0, uint32_t worker = 0) const {
    uint32_t& state = lane(worker).places[slot].state;
    rings::StoreRelease(state, (state & ~UROCE_COPY_PHASE_MASK) | phase);
  }

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> frame_ = std::vector<uint8_t>(kBytes);
  uroce_copies* copies_ = nullptr;
  uroce_copy_lane* first_lane_ = nullptr;
  std::unique_ptr<CopyLanes> lanes_;
  std::vector<std::unique_ptr<CopyJob>> taken_;
  Time now_{std::chrono::hours(1)};
};

TEST_F(CopyLanesTest, AWriteReachesTheProgramAndItsLastWordIsASeparatePiece) {
  CopyJob* const job = Post(CopyJob::Kind::kWrite);
  ASSERT_EQ(lane().requests[0].piece_count, 2u);
  EXPECT_EQ(lane().requests[0].pieces[1].length, 8u);
  EXPECT_EQ(Take().job, nullptr);
  EXPECT_FALSE(lanes_->HasDone(0));
  Serve();
  EXPECT_TRUE(lanes_->HasDone(0));
  EXPECT_FALSE(lanes_->HasDone(1));
  const CopyLanes::Taken taken = Take();
  EXPECT_EQ(taken.job, job);
  EXPECT_FALSE(taken.is_for_helper);
  EXPECT_TRUE(job->succeeded);
  EXPECT_EQ(job->moved_pieces, 1u);
  EXPECT_EQ(memory_, frame_);
  EXPECT_EQ(lanes_->in_flight(0), 0u);
  EXPECT_EQ(lanes_->counters().written_bytes, kBytes);
}

TEST_F(CopyLanesTest, AReadFillsTheFrame) {
  Post(CopyJob::Kind::kRead);
  EXPECT_EQ(lane().requests[0].piece_count, 1u);
  Serve();
  ASSERT_NE(Take().job, nullptr);
  EXPECT_EQ(memory_, frame_);
  EXPECT_EQ(lanes_->counters().read_bytes, kBytes);
}

TEST_F(CopyLanesTest, ALaneRefusesWhatDoesNotFitAndWhatOnlyOthersCanDo) {
  const std::unique_ptr<CopyJob> job(Job(CopyJob::Kind::kWrite));
  EXPECT_TRUE(lanes_->Takes(0, *job, now_));
  EXPECT_FALSE(lanes_->Takes(kWorkers, *job, now_)) << "the worker has no lane";
  job->pieces[0].length_bytes = UROCE_COPY_MOST_BYTES;
  EXPECT_TRUE(lanes_->Takes(0, *job, now_));
  job->pieces[0].length_bytes = UROCE_COPY_MOST_BYTES + 1;
  EXPECT_FALSE(lanes_->Takes(0, *job, now_));
  job->pieces[0].length_bytes = 8;
  job->pieces[0].is_staged = true;
  EXPECT_FALSE(lanes_->Takes(0, *job, now_)) << "memory of a device";
  job->pieces[0].is_staged = false;
  job->kind = CopyJob::Kind::kFetchAdd;
  EXPECT_FALSE(lanes_->Takes(0, *job, now_)) << "an atomic";
}

TEST_F(CopyLanesTest, ALaneTakesAsManyCopiesAsItHasSlotsAndEndsThemInAnyOrder) {
  std::array<CopyJob*, UROCE_COPY_SLOTS> jobs;
  for (CopyJob*& job : jobs) job = Post(CopyJob::Kind::kWrite);
  const std::unique_ptr<CopyJob> more(Job(CopyJob::Kind::kWrite));
  EXPECT_FALSE(lanes_->Takes(0, *more, now_));
  EXPECT_TRUE(lanes_->Takes(1, *more, now_)) << "another worker's lane";
  Serve(2);
  EXPECT_EQ(Take().job, jobs[2]);
  EXPECT_TRUE(lanes_->Takes(0, *more, now_));
  EXPECT_EQ(Take().job, nullptr);
}

TEST_F(CopyLanesTest, ACopyThatIsNotBegunGoesToTheHelperAndTheLaneRests) {
  CopyJob* const job = Post(CopyJob::Kind::kWrite);
  now_ += CopyLanes::kPatience;
  const CopyLanes::Taken taken = Take();
  EXPECT_EQ(taken.job, job);
  EXPECT_TRUE(taken.is_for_helper);
  EXPECT_EQ(job->moved_pieces, 0u);
  EXPECT_EQ(PhaseOf(), UROCE_COPY_FREE) << "the program can no longer begin it";
  EXPECT_EQ(lanes_->counters().left_to_helper, 1u);
  const std::unique_ptr<CopyJob> next(Job(CopyJob::Kind::kWrite));
  EXPECT_FALSE(lanes_->Takes(0, *next, now_));
  now_ += CopyLanes::kRest;
  EXPECT_TRUE(lanes_->Takes(0, *next, now_));
}

// What the program has begun to write, it may still write: no other thread may, and the slot is
// not free.
TEST_F(CopyLanesTest, AWriteThatTheProgramHasBegunStaysWithIt) {
  Post(CopyJob::Kind::kWrite);
  SetPhase(UROCE_COPY_CLAIMED);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Take().job, nullptr);
  EXPECT_EQ(lanes_->in_flight(0), 1u);
  SetPhase(UROCE_COPY_DONE);
  EXPECT_FALSE(Take().is_for_helper);
}

TEST_F(CopyLanesTest, AReadThatTheProgramDoesNotEndGoesToTheHelperAndItsSlotWaits) {
  CopyJob* const job = Post(CopyJob::Kind::kRead);
  SetPhase(UROCE_COPY_CLAIMED);
  EXPECT_EQ(Take().job, nullptr);
  now_ += CopyLanes::kPatience;
  const CopyLanes::Taken taken = Take();
  EXPECT_EQ(taken.job, job);
  EXPECT_TRUE(taken.is_for_helper);
  now_ += CopyLanes::kRest;
  Post(CopyJob::Kind::kRead);
  EXPECT_EQ(PhaseOf(1), UROCE_COPY_POSTED) << "the program may still write to the first slot";
  SetPhase(UROCE_COPY_DONE);  // At last.
  Post(CopyJob::Kind::kRead);
  EXPECT_EQ(PhaseOf(0), UROCE_COPY_POSTED);
}

// A thread that has read a request claims it only if it is still the same one.
TEST_F(CopyLanesTest, EachCopyHasAnotherState) {
  Post(CopyJob::Kind::kWrite);
  const uint32_t first = lane().places[0].state;
  now_ += CopyLanes::kPatience;
  ASSERT_TRUE(Take().is_for_helper);
  now_ += CopyLanes::kRest;
  Post(CopyJob::Kind::kWrite);
  EXPECT_EQ(PhaseOf(), UROCE_COPY_POSTED);
  EXPECT_NE(lane().places[0].state, first);
}

TEST_F(CopyLanesTest, WhatTheProgramRefusesGoesToTheHelper) {
  CopyJob* const job = Post(CopyJob::Kind::kRead);
  const std::vector<uint8_t> before = frame_;
  lane().places[0].error = EFAULT;
  SetPhase(UROCE_COPY_DONE);
  const CopyLanes::Taken taken = Take();
  EXPECT_EQ(taken.job, job);
  EXPECT_TRUE(taken.is_for_helper);
  EXPECT_EQ(frame_, before);
}

TEST_F(CopyLanesTest, UnknownStatesLoseNoJob) {
  for (const uint32_t added : {4u, 5u, 7u, 77u, 0x8000'0000u}) {
    CopyJob* const job = Post(CopyJob::Kind::kWrite);
    const uint32_t state = lane().places[0].state += added;
    const CopyLanes::Taken taken = Take();
    EXPECT_EQ(taken.job, job) << state;
    EXPECT_TRUE(taken.is_for_helper) << state;
    now_ += CopyLanes::kRest;
  }
  // A slot that the program does not give back is not used.
  lane().places[0].state = UROCE_COPY_CLAIMED;
  Post(CopyJob::Kind::kWrite);
  EXPECT_EQ(PhaseOf(1), UROCE_COPY_POSTED);
}

TEST_F(CopyLanesTest, TheThreadIsWokenOnlyIfItSleeps) {
  Post(CopyJob::Kind::kWrite);
  EXPECT_EQ(copies_->wakes, 0u);
  copies_->program_sleeps = 1;
  Post(CopyJob::Kind::kWrite);
  EXPECT_EQ(copies_->wakes, 1u);
}

// ---- Lanes behind a stage ----

class StageLanesTest : public CopyLanesTest {
 protected:
  StageLanesTest() {
    const uint64_t length = CopyLanes::BytesWithStage(kWorkers);
    const Fd file = *MakeSharedFile("stage", length);
    Mapping mapping = *MapShared(file.get(), length);
    stage_ = reinterpret_cast<uroce_stage*>(mapping.data());
    memory_of_stage_ = std::make_shared<const GuardedMapping>(
        *GuardedMapping::Make(std::move(mapping), MappingGuard::kNoOwner));
    lanes_ = CopyLanes::OfStage(memory_of_stage_, kWorkers);
    first_lane_ = reinterpret_cast<uroce_copy_lane*>(stage_ + 1);
  }
  CopyJob* StagedJob(CopyJob::Kind kind) {
    CopyJob* const job = Job(kind);
    job->pieces[0].is_staged = true;
    return job;
  }
  CopyJob* PostStaged(CopyJob::Kind kind) {
    CopyJob* const job = StagedJob(kind);
    EXPECT_TRUE(lanes_->Takes(0, *job, now_));
    lanes_->Post(0, job, now_);
    return job;
  }

  uroce_stage* stage_ = nullptr;
  std::shared_ptr<const GuardedMapping> memory_of_stage_;
};

TEST_F(StageLanesTest, TheyTakeMemoryOfDevicesAlone) {
  const std::unique_ptr<CopyJob> job(Job(CopyJob::Kind::kWrite));
  EXPECT_FALSE(lanes_->Takes(0, *job, now_));
  job->pieces[0].is_staged = true;
  EXPECT_TRUE(lanes_->Takes(0, *job, now_));
  job->pieces[1] = {64, frame_.data(), 8};
  job->piece_count = 2;
  EXPECT_FALSE(lanes_->Takes(0, *job, now_)) << "memory of the host, too";
}

TEST_F(StageLanesTest, CopiesMoveTheirBytesAndTheLastWordIsASeparatePiece) {
  PostStaged(CopyJob::Kind::kWrite);
  ASSERT_EQ(lane().requests[0].piece_count, 2u);
  EXPECT_EQ(lane().requests[0].pieces[1].length, 8u);
  Serve();
  EXPECT_FALSE(Take().is_for_helper);
  EXPECT_EQ(memory_, frame_);
  std::ranges::fill(frame_, uint8_t{3});
  const std::vector<uint8_t> before = memory_;
  PostStaged(CopyJob::Kind::kRead);
  Serve();
  EXPECT_FALSE(Take().is_for_helper);
  EXPECT_EQ(frame_, before);
}

// The helper reaches the device by the same thread.
TEST_F(StageLanesTest, ACopyIsLeftToTheThreadForLonger) {
  CopyJob* const job = PostStaged(CopyJob::Kind::kWrite);
  now_ += CopyLanes::kPatience;
  EXPECT_EQ(Take().job, nullptr);
  now_ += CopyLanes::kPatienceWithStage;
  const CopyLanes::Taken taken = Take();
  EXPECT_EQ(taken.job, job);
  EXPECT_TRUE(taken.is_for_helper);
  EXPECT_EQ(PhaseOf(), UROCE_COPY_FREE);
}

TEST_F(StageLanesTest, TheThreadOfTheStageIsWoken) {
  PostStaged(CopyJob::Kind::kWrite);
  EXPECT_EQ(stage_->wakes, 0u);
  stage_->program_sleeps = 1;
  PostStaged(CopyJob::Kind::kWrite);
  EXPECT_EQ(stage_->wakes, 1u);
}

// A program may write anything to its lanes at any time.
TEST_F(StageLanesTest, ACopyMovesNothingButItsOwnBytesWhateverTheProgramWrites) {
  constexpr uint32_t kSeed = 4711;
  std::mt19937 random(kSeed);
  uint32_t done = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes(512, 0xa5);
    const auto length = static_cast<uint32_t>(1 + random() % 500);
    const bool reads = random() % 2 == 0;
    CopyJob* const job = StagedJob(reads ? CopyJob::Kind::kRead : CopyJob::Kind::kWrite);
    job->pieces[0].bytes = bytes.data();
    job->pieces[0].length_bytes = length;
    ASSERT_TRUE(lanes_->Takes(0, *job, now_)) << round;
    lanes_->Post(0, job, now_);
    auto* const words = reinterpret_cast<uint32_t*>(first_lane_);
    for (int i = 0; i < 50; ++i) {
      const uint32_t values[] = {static_cast<uint32_t>(random()), 0, UINT32_MAX};
      // Behind the places, whose random words UnknownStatesLoseNoJob has.
      const size_t at =
          sizeof(first_lane_->places) / 4 + random() % (offsetof(uroce_copy_lane, data) / 4 + 1000);
      words[at] = values[random() % 3];
    }
    for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
      if (PhaseOf(slot) == UROCE_COPY_POSTED) SetPhase(UROCE_COPY_DONE, slot);
    }
    const CopyLanes::Taken taken = Take();
    ASSERT_EQ(taken.job, job);
    done += taken.is_for_helper ? 0 : 1;
    const size_t changed = reads && !taken.is_for_helper ? length : 0;
    ASSERT_TRUE(std::all_of(bytes.begin() + static_cast<ptrdiff_t>(changed), bytes.end(),
                            [](uint8_t byte) { return byte == 0xa5; }))
        << round << ", seed " << kSeed;
  }
  EXPECT_GT(done, 0u);
}

// ---- The helper with lanes ----

class HelperWithLanesTest : public CopyLanesTest {
 protected:
  HelperWithLanesTest() { helper_.SetLanes(std::move(lanes_)); }
  ~HelperWithLanesTest() override {
    for (const int fd : wake_fds_) close(fd);
  }
  CopyJob* Await(uint32_t worker) {
    for (;;) {
      if (CopyJob* job = helper_.PollDone(worker)) return job;
      std::this_thread::yield();
    }
  }
  std::array<int, kWorkers> wake_fds_{eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  CopyHelper helper_{{.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = Credentials::Own()},
                     wake_fds_};
};

TEST_F(HelperWithLanesTest, AJobCountsAsUnderWayUntilTheProgramHasDoneIt) {
  helper_.Submit(0, Job(CopyJob::Kind::kWrite));
  EXPECT_EQ(helper_.in_lane(0), 1u);
  EXPECT_EQ(helper_.in_flight(0), 1u);
  const uint64_t generation = helper_.generation();
  EXPECT_FALSE(helper_.AreDone(generation));
  EXPECT_TRUE(helper_.AnnounceSleep(0));
  Serve();
  EXPECT_FALSE(helper_.AnnounceSleep(0)) << "a job is done";
  EXPECT_FALSE(helper_.AreDone(generation)) << "the worker has not taken it";
  const std::unique_ptr<CopyJob> job(helper_.PollDone(0));
  ASSERT_NE(job, nullptr);
  EXPECT_TRUE(job->succeeded);
  EXPECT_TRUE(helper_.AreDone(generation));
  EXPECT_EQ(helper_.in_flight(0), 0u);
  EXPECT_EQ(memory_, frame_);
}

// The helper and the program make copies side by side.
TEST_F(HelperWithLanesTest, LaterJobsThatAreDoneStandForNoEarlierOne) {
  uint64_t word = 0;
  CopyJob* const slow = Job(CopyJob::Kind::kWrite);
  helper_.Submit(0, slow);
  SetPhase(UROCE_COPY_CLAIMED);
  const uint64_t generation = helper_.generation();
  for (int later = 0; later < 3; ++later) {
    CopyJob* const atomic = Job(CopyJob::Kind::kFetchAdd, sizeof(word));
    atomic->pieces[0].app_addr = reinterpret_cast<uint64_t>(&word);
    helper_.Submit(1, atomic);
    const std::unique_ptr<CopyJob> done(Await(1));
    EXPECT_FALSE(helper_.AreDone(generation)) << later;
  }
  SetPhase(UROCE_COPY_DONE);
  EXPECT_EQ(std::unique_ptr<CopyJob>(Await(0)).get(), slow);
  EXPECT_TRUE(helper_.AreDone(generation));
}

TEST_F(HelperWithLanesTest, TheHelperDoesWhatAStoppedProgramDoesNot) {
  helper_.Submit(1, Job(CopyJob::Kind::kWrite));
  const uint64_t generation = helper_.generation();
  const std::unique_ptr<CopyJob> job(Await(1));
  EXPECT_TRUE(job->succeeded);
  EXPECT_TRUE(helper_.AreDone(generation));
  EXPECT_EQ(helper_.lane_counters()->left_to_helper, 1u);
  EXPECT_EQ(memory_, frame_);
}

TEST_F(HelperWithLanesTest, WhatTheProgramHasNotDoneForAQueuePairThatHasGoneIsLeftOut) {
  const std::vector<uint8_t> before = memory_;
  CopyJob* const not_begun = Job(CopyJob::Kind::kWrite);
  helper_.Submit(0, not_begun);
  helper_.Abandon(*not_begun);
  EXPECT_EQ(PhaseOf(), UROCE_COPY_FREE) << "the program cannot begin it";
  EXPECT_EQ(std::unique_ptr<CopyJob>(helper_.PollDone(0)).get(), not_begun);
  CopyJob* const refused = Job(CopyJob::Kind::kWrite);
  helper_.Submit(1, refused);
  lane(1).places[0].error = EFAULT;
  SetPhase(UROCE_COPY_DONE, 0, 1);
  helper_.Abandon(*refused);
  EXPECT_EQ(std::unique_ptr<CopyJob>(Await(1)).get(), refused);
  EXPECT_FALSE(helper_.HasLateWrites());
  EXPECT_EQ(helper_.in_flight(0) + helper_.in_flight(1), 0u);
  EXPECT_EQ(memory_, before);
}

TEST_F(HelperWithLanesTest, AWriteThatTheProgramHasBegunIsLateUntilItIsDone) {
  for (const auto kind : {CopyJob::Kind::kRead, CopyJob::Kind::kWrite}) {
    CopyJob* const job = Job(kind);
    helper_.Submit(1, job);
    SetPhase(UROCE_COPY_CLAIMED, 0, 1);
    EXPECT_FALSE(helper_.HasLateWrites());
    helper_.Abandon(*job);
    EXPECT_EQ(helper_.HasLateWrites(), kind == CopyJob::Kind::kWrite);
    SetPhase(UROCE_COPY_DONE, 0, 1);
    EXPECT_FALSE(helper_.HasLateWrites()) << "also before the worker has looked";
    EXPECT_EQ(std::unique_ptr<CopyJob>(helper_.PollDone(1)).get(), job);
  }
  helper_.Submit(1, Job(CopyJob::Kind::kWrite));
  SetPhase(UROCE_COPY_CLAIMED, 0, 1);
  EXPECT_FALSE(helper_.HasLateWrites()) << "it is another one";
}

TEST_F(HelperWithLanesTest, TheHelperDecidesWhatTheProgramRefuses) {
  CopyJob* const bad = Job(CopyJob::Kind::kWrite);
  bad->pieces[0].app_addr = 64;  // No process has memory there.
  helper_.Submit(0, bad);
  lane().places[0].error = EFAULT;
  SetPhase(UROCE_COPY_DONE);
  const std::unique_ptr<CopyJob> job(Await(0));
  EXPECT_FALSE(job->succeeded);
}

/// A helper whose program has a stage with lanes.
class HelperWithStageLanesTest : public StageLanesTest {
 protected:
  HelperWithStageLanesTest() {
    helper_.SetStage(std::make_unique<Stage>(memory_of_stage_), std::move(lanes_));
  }
  ~HelperWithStageLanesTest() override {
    for (const int fd : wake_fds_) close(fd);
  }
  std::unique_ptr<CopyJob> Await(uint32_t worker) {
    for (;;) {
      if (CopyJob* job = helper_.PollDone(worker)) return std::unique_ptr<CopyJob>(job);
      std::this_thread::yield();
    }
  }
  /// Answers the next request in the stage with an error.
  void RefuseRequest() const {
    const uint32_t before = stage_->served;
    while (rings::LoadAcquire(stage_->requested) == before) std::this_thread::yield();
    stage_->error = EFAULT;
    rings::StoreRelease(stage_->served, before + 1);
    syscall(SYS_futex, &stage_->served, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  std::array<int, kWorkers> wake_fds_{eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  CopyHelper helper_{{.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = Credentials::Own()},
                     wake_fds_};
};

TEST_F(HelperWithStageLanesTest, WorkersWaitForSeveralCopiesAtOnceWhichEndInAnyOrder) {
  CopyJob* const first = StagedJob(CopyJob::Kind::kWrite);
  CopyJob* const second = StagedJob(CopyJob::Kind::kWrite);
  helper_.Submit(0, first);
  helper_.Submit(0, second);
  EXPECT_EQ(helper_.in_lane(0), 2u);
  EXPECT_TRUE(helper_.AwaitsStage(0));
  EXPECT_EQ(stage_->requested, 0u) << "no thread of the daemon lies between";
  EXPECT_TRUE(helper_.AnnounceSleep(0));
  Serve(1);
  EXPECT_FALSE(helper_.AnnounceSleep(0)) << "a copy is done";
  const std::unique_ptr<CopyJob> done_first = Await(0);
  EXPECT_EQ(done_first.get(), second);
  EXPECT_TRUE(done_first->succeeded);
  EXPECT_EQ(helper_.PollDone(0), nullptr);
  Serve(0);
  EXPECT_EQ(Await(0).get(), first);
  EXPECT_FALSE(helper_.AwaitsStage(0));
  EXPECT_EQ(helper_.stage_lane_counters()->written_bytes, 2 * kBytes);
}

TEST_F(HelperWithStageLanesTest, WhatTheProgramRefusesIsAskedForOnceMoreAndThenFails) {
  CopyJob* const job = StagedJob(CopyJob::Kind::kWrite);
  helper_.Submit(0, job);
  lane().places[0].error = EFAULT;
  SetPhase(UROCE_COPY_DONE);
  EXPECT_EQ(helper_.PollDone(0), nullptr);
  RefuseRequest();
  const std::unique_ptr<CopyJob> done = Await(0);
  EXPECT_EQ(done.get(), job);
  EXPECT_FALSE(done->succeeded);
  EXPECT_EQ(helper_.stage_counters()->refused, 1u);
}

TEST_F(HelperWithStageLanesTest, AtomicsExcludeEachOtherInTheHelper) {
  CopyJob* const job = StagedJob(CopyJob::Kind::kFetchAdd);
  job->pieces[0].length_bytes = sizeof(uint64_t);
  helper_.Submit(0, job);
  EXPECT_EQ(helper_.in_lane(0), 0u);
  RefuseRequest();
  EXPECT_FALSE(Await(0)->succeeded);
}

TEST_F(HelperWithStageLanesTest, AWriteOfAQueuePairThatHasGoneIsLateUntilItIsDone) {
  CopyJob* const not_begun = StagedJob(CopyJob::Kind::kWrite);
  CopyJob* const begun = StagedJob(CopyJob::Kind::kWrite);
  helper_.Submit(1, not_begun);
  helper_.Submit(1, begun);
  SetPhase(UROCE_COPY_CLAIMED, 1, 1);
  helper_.Abandon(*not_begun);
  EXPECT_EQ(PhaseOf(0, 1), UROCE_COPY_FREE);
  EXPECT_FALSE(helper_.HasLateWrites());
  helper_.Abandon(*begun);
  EXPECT_TRUE(helper_.HasLateWrites());
  SetPhase(UROCE_COPY_DONE, 1, 1);
  EXPECT_FALSE(helper_.HasLateWrites());
  EXPECT_NE(Await(1), nullptr);
  EXPECT_NE(Await(1), nullptr);
  EXPECT_EQ(helper_.in_flight(1), 0u);
}

TEST_F(HelperWithStageLanesTest, CopiesOfAProgramThatDiesEndWithTheHelper) {
  for (int i = 0; i < 3; ++i) helper_.Submit(0, StagedJob(CopyJob::Kind::kWrite));
  SetPhase(UROCE_COPY_CLAIMED, 0);
  SetPhase(UROCE_COPY_DONE, 2);  // LeakSanitizer sees a job that is left.
}

/// Serves the first lane as a program does, now and then too late for the worker's patience.
class ServingThread {
 public:
  explicit ServingThread(uroce_copies& copies) : thread_([this, &copies] { Run(copies); }) {}
  ~ServingThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run(uroce_copies& copies) const {
    auto& lane = *reinterpret_cast<uroce_copy_lane*>(&copies + 1);
    for (uint32_t turn = 0; !stop_; ++turn) {
      if (turn % 64 == 0) std::this_thread::sleep_for(2 * CopyLanes::kPatience);
      for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) Serve(lane, slot);
      std::this_thread::yield();
    }
  }
  static void Serve(uroce_copy_lane& lane, uint32_t slot) {
    uint32_t& state = lane.places[slot].state;
    uint32_t posted = rings::LoadAcquire(state);
    if ((posted & UROCE_COPY_PHASE_MASK) != UROCE_COPY_POSTED ||
        !__atomic_compare_exchange_n(&state, &posted, posted + 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
      return;
    }
    const uroce_copy_request& request = lane.requests[slot];
    for (uint32_t i = 0; i < request.piece_count; ++i) {
      const uroce_stage_piece& piece = request.pieces[i];
      std::memcpy(reinterpret_cast<void*>(piece.addr), lane.data[slot] + piece.offset,
                  piece.length);
    }
    lane.places[slot].error = 0;
    rings::StoreRelease(state, posted + 2);
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Each job moves its own bytes. Runs under ThreadSanitizer, too.
TEST_F(HelperWithLanesTest, EachOfManyJobsIsDoneByTheProgramOrByTheHelper) {
  constexpr uint32_t kLength = 96;
  constexpr uint32_t kAtOnce = UROCE_COPY_SLOTS + 1;
  std::array<std::array<uint64_t, kLength / 8>, kAtOnce> targets{};
  std::array<std::array<uint8_t, kLength>, kAtOnce> sources{};
  const ServingThread program(*copies_);
  const LaneCounters& counters = *helper_.lane_counters();
  // Until both have happened: a lane rests for long after a copy that was not begun.
  for (uint32_t round = 0;
       round < 500 || counters.left_to_helper < 2 || counters.written_bytes == 0; ++round) {
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      sources[i].fill(static_cast<uint8_t>(round * kAtOnce + i));
      CopyJob* const job = Job(CopyJob::Kind::kWrite, kLength);
      job->pieces[0].app_addr = reinterpret_cast<uint64_t>(targets[i].data());
      job->pieces[0].bytes = sources[i].data();
      helper_.Submit(0, job);
    }
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const std::unique_ptr<CopyJob> job(Await(0));
      ASSERT_TRUE(job->succeeded);
    }
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      ASSERT_EQ(std::memcmp(targets[i].data(), sources[i].data(), kLength), 0) << round;
    }
  }
  EXPECT_EQ(helper_.in_flight(0), 0u);
  EXPECT_TRUE(helper_.AreDone(helper_.generation()));
}

TEST_F(HelperWithLanesTest, AtomicsStayWithTheHelper) {
  uint64_t word = 5;
  CopyJob* const atomic = Job(CopyJob::Kind::kFetchAdd, sizeof(word));
  atomic->pieces[0].app_addr = reinterpret_cast<uint64_t>(&word);
  atomic->swap_add = 2;
  helper_.Submit(0, atomic);
  EXPECT_EQ(helper_.in_lane(0), 0u);
  const std::unique_ptr<CopyJob> job(Await(0));
  EXPECT_EQ(job->original, 5u);
  EXPECT_EQ(word, 7u);
}

TEST_F(HelperWithLanesTest, JobsThatAreUnderWayEndWithTheHelper) {
  helper_.Submit(0, Job(CopyJob::Kind::kWrite));
  SetPhase(UROCE_COPY_CLAIMED);  // LeakSanitizer sees a job that is left.
}

}  // namespace
}  // namespace uroce::datapath
