// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/completion_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/datapath/queue/record_stream.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kDepth = 4;
constexpr uint64_t kUserHandle = 0xc0ffee;

class CompletionRingTest : public testing::Test {
 protected:
  CompletionQueueConfig Config() {
    return {.page = &page_,
            .user_handle = kUserHandle,
            .channel = {channel_.writer()},
            .async = {async_.writer()}};
  }
  /// The program's memory of one worker's ring.
  struct Memory {
    uroce_cq_ring_page page{};
    std::array<uroce_cqe, kDepth> entries{};
    rings::CqeRingLayout layout() { return {&page, entries.data(), kDepth}; }
  };
  static PublishResult Publish(CompletionRing& ring) { return ring.Publish({}, 0, Qpn(2)); }
  bool ReadChannel() {
    const std::optional<uroce_event_record> record = channel_.Read();
    if (!record) return false;
    EXPECT_EQ(record->element, kUserHandle);
    EXPECT_EQ(record->event_type, UROCE_EVENT_COMPLETION);
    return true;
  }

  uroce_cq_page page_{};
  std::array<Memory, 2> memory_;
  RecordStream channel_;
  RecordStream async_;
  CompletionQueue queue_{Config()};
  CompletionRing& ring_ = queue_.AddRing(0, memory_[0].layout());
};

TEST_F(CompletionRingTest, EntryHoldsTheCompletion) {
  transport::Completion completion;
  completion.wr_id = 77;
  completion.slot = 5;
  completion.is_receive = true;
  completion.has_immediate = true;
  completion.immediate_or_rkey = 0x04030201;
  completion.opcode = transport::WcOpcode::kReceiveWriteWithImm;
  completion.length_bytes = 1000;
  ASSERT_EQ(ring_.Publish(completion, 9, Qpn(0x123)), PublishResult::kOk);
  const uroce_cqe& cqe = memory_[0].entries[0];
  EXPECT_EQ(cqe.generation, 1u);
  EXPECT_EQ(cqe.wr_id, 77u);
  EXPECT_EQ(cqe.qp_handle, 9u);
  EXPECT_EQ(cqe.qp_num, 0x123u);
  EXPECT_EQ(cqe.wqe_index, 5u);
  EXPECT_EQ(cqe.byte_len, 1000u);
  EXPECT_EQ(cqe.imm_or_rkey, 0x04030201u);
  EXPECT_EQ(cqe.opcode, 129);
  EXPECT_EQ(cqe.wc_flags, 2) << "IBV_WC_WITH_IMM";
  EXPECT_EQ(cqe.flags, UROCE_CQE_RECEIVE);
}

TEST_F(CompletionRingTest, OneRecordPerArming) {
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel()) << "not armed";
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_EQ(page_.arm.value, UROCE_CQ_DISARMED);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  EXPECT_EQ(ring_.channel_records(), 1u);
}

TEST_F(CompletionRingTest, SolicitedArmingWaitsForSolicitedOrFailed) {
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
  transport::Completion failed;
  failed.status = transport::WcStatus::kWrFlushErr;
  ASSERT_EQ(ring_.Publish(failed, 0, Qpn(2)), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  page_.arm.value = UROCE_CQ_ARMED_SOLICITED;
  transport::Completion solicited;
  solicited.solicited = true;
  ASSERT_EQ(ring_.Publish(solicited, 0, Qpn(2)), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, AModeratedQueueMakesItsRecordByTheCount) {
  queue_.set_moderation({.count = 3, .period_us = UINT16_MAX});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Publish(ring_), PublishResult::kOk);
    ring_.FinishBurst();
    EXPECT_FALSE(ReadChannel());
    EXPECT_TRUE(ring_.has_pending_records()) << "the worker comes back at the end of the period";
  }
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_FALSE(ring_.has_pending_records());
  EXPECT_EQ(ring_.channel_records(), 1u);
}

TEST_F(CompletionRingTest, AModeratedQueueMakesItsRecordByTheEndOfThePeriod) {
  queue_.set_moderation({.count = 3, .period_us = 1});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  while (ring_.has_pending_records()) {
    EXPECT_LE(ring_.RetryAfter(), Nanos(1000));
    ring_.RetryRecords();
  }
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, CompletionsBeforeTheArmingCountForNothing) {
  queue_.set_moderation({.count = 2, .period_us = UINT16_MAX});
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ring_.has_pending_records());
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_FALSE(ReadChannel());
}

TEST_F(CompletionRingTest, TheEndOfModerationReleasesTheRecord) {
  queue_.set_moderation({.count = 3, .period_us = UINT16_MAX});
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  queue_.set_moderation({});
  ring_.RetryRecords();
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, FullSocketLeavesTheRecordPending) {
  channel_.Fill();
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ring_.FinishBurst();
  EXPECT_TRUE(ring_.has_pending_records());
  EXPECT_EQ(ring_.channel_records(), 0u);
  channel_.Drain();
  ring_.RetryRecords();
  EXPECT_FALSE(ring_.has_pending_records());
  EXPECT_TRUE(ReadChannel());
}

TEST_F(CompletionRingTest, OverflowIsReportedOnceAndForGood) {
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  EXPECT_EQ(page_.error.value, 0u);
  EXPECT_EQ(Publish(ring_), PublishResult::kOverflow);
  EXPECT_NE(page_.error.value, 0u);
  memory_[0].page.consumed.value = kDepth;
  EXPECT_EQ(Publish(ring_), PublishResult::kInError)
      << "room now does not bring back what was lost";
  const std::optional<uroce_event_record> record = async_.Read();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->element, kUserHandle);
  EXPECT_EQ(record->event_type, 0u) << "IBV_EVENT_CQ_ERR";
  EXPECT_FALSE(async_.Read());
  EXPECT_EQ(ring_.async_records(), 1u);
}

TEST_F(CompletionRingTest, ImpossibleConsumedIndexIsAnOverflow) {
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  memory_[0].page.consumed.value = kDepth + 1;
  EXPECT_EQ(Publish(ring_), PublishResult::kOverflow);
  EXPECT_TRUE(queue_.overflowed());
}

// Two workers publish in the same moment: the worker that takes the arming writes the one record.
TEST_F(CompletionRingTest, OneRecordPerArmingOverAllRings) {
  CompletionRing& other = queue_.AddRing(1, memory_[1].layout());
  page_.arm.value = UROCE_CQ_ARMED_NEXT;
  ASSERT_EQ(Publish(ring_), PublishResult::kOk);
  ASSERT_EQ(Publish(other), PublishResult::kOk);
  other.FinishBurst();
  ring_.FinishBurst();
  EXPECT_TRUE(ReadChannel());
  EXPECT_FALSE(ReadChannel());
  EXPECT_EQ(other.channel_records(), 1u);
  EXPECT_EQ(ring_.channel_records(), 0u);
}

TEST_F(CompletionRingTest, OneFullRingPutsTheWholeQueueInError) {
  CompletionRing& other = queue_.AddRing(1, memory_[1].layout());
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(Publish(other), PublishResult::kOk);
  ASSERT_EQ(Publish(ring_), PublishResult::kOk) << "each ring has the full depth";
  EXPECT_EQ(Publish(other), PublishResult::kOverflow);
  EXPECT_EQ(Publish(ring_), PublishResult::kInError) << "though there is room";
  EXPECT_EQ(other.async_records(), 1u);
  EXPECT_EQ(ring_.async_records(), 0u) << "one event for the queue";
}

TEST_F(CompletionRingTest, AMovedRingGoesOnBehindWhatWaits) {
  for (uint32_t i = 0; i < 3; ++i) {
    transport::Completion completion;
    completion.wr_id = i;
    ASSERT_EQ(ring_.Publish(completion, 0, Qpn(2)), PublishResult::kOk);
  }
  memory_[0].page.consumed.value = 1;
  EXPECT_EQ(ring_.waiting(), 2u);
  const auto moved = ring_.MoveTo(memory_[1].layout(), ring_.waiting());
  transport::Completion completion;
  completion.wr_id = 3;
  ASSERT_EQ(ring_.Publish(completion, 0, Qpn(2)), PublishResult::kOk);
  rings::CopyWaiting(moved.from, moved.produced - moved.waiting, 0, moved.waiting,
                     memory_[1].layout());
  rings::CqeConsumer consumer(memory_[1].layout());
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_NE(consumer.Peek(), nullptr);
    EXPECT_EQ(consumer.Peek()->wr_id, i);
    consumer.Advance();
  }
  EXPECT_EQ(consumer.Peek(), nullptr);
}

class WakePaceTest : public testing::Test {
 protected:
  static constexpr Nanos kNow{1'000'000'000};
  static constexpr Nanos kDear = WakePace::kCheap * 10;
};

TEST_F(WakePaceTest, WhatSeemsDearIsMeasuredByTheThreadsOwnClockFirst) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  EXPECT_TRUE(pace.MayWake(kNow)) << "another thread may have run";
  EXPECT_TRUE(pace.is_suspected());
  pace.Account(kNow, WakePace::kCheap, true);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

TEST_F(WakePaceTest, AfterADearWakeUpTheNextWaitForManyTimesAsLong) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  pace.Account(kNow, kDear, true);
  EXPECT_FALSE(pace.MayWake(kNow + kDear * WakePace::kRest - Nanos(1)));
  EXPECT_TRUE(pace.MayWake(kNow + kDear * WakePace::kRest));
  EXPECT_TRUE(pace.is_suspected()) << "until one is cheap";
}

TEST_F(WakePaceTest, ManyCheapWakeUpsNeedNoRest) {
  WakePace pace;
  for (int i = 0; i < 1000; ++i) pace.Account(kNow, WakePace::kCheap, false);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

// What a record costs the worker that sends it is the program's to decide: its user pays for it.

// Some 100 ns each: ten times what a record may take.
constexpr int kWatchers = 3900;  // Their fds fit the usual hard limit of 4,096.

// Each watcher is one more that a record wakes.
class Watchers {
 public:
  Watchers(int fd, int count) : epoll_fd_(epoll_create1(0)) {
    for (int i = 0; i < count; ++i) {
      fds_.push_back(fcntl(fd, F_DUPFD, 0));
      epoll_event event{.events = EPOLLIN, .data = {}};
      EXPECT_EQ(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fds_.back(), &event), 0);
    }
  }
  ~Watchers() {
    for (const int fd : fds_) close(fd);
    close(epoll_fd_);
  }
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;
  /// Has the kernel look at each once more.
  void Take() const {
    std::vector<epoll_event> events(fds_.size());
    epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  }

 private:
  int epoll_fd_;
  std::vector<int> fds_;
};

TEST(RecordSocketTest, AProgramWhoseRecordsWakeThousandsHasFewer) {
  const RecordStream stream;
  const RecordStream other;
  WakePace pace;
  const RecordSocket socket{stream.writer(), &pace};
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const Watchers watchers(stream.reader(), kWatchers);
  const RecordSocket second{other.writer(), &pace};
  // The wait is of real time, and may end while this thread has no CPU: then another one begins.
  bool second_waits = false;
  for (int tries = 0; tries < 20 && !second_waits; ++tries) {
    const auto begin = std::chrono::steady_clock::now();
    int written = 0;
    for (; written < 100 && socket.Write(1, UROCE_EVENT_COMPLETION); ++written) {
      stream.Drain();
      watchers.Take();
    }
    const auto waits = (std::chrono::steady_clock::now() - begin) /
                       std::chrono::nanoseconds((WakePace::kCheap * WakePace::kRest).count());
    EXPECT_LE(written, 3 + waits) << "one raises suspicion, one is measured, then it waits";
    other.Drain();
    second_waits = !second.Write(1, UROCE_EVENT_COMPLETION) && !other.Read();
  }
  EXPECT_TRUE(second_waits) << "the user's others wait too";
}

TEST(RecordSocketTest, RecordsForAClosedReaderAreTaken) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[0]);
  EXPECT_TRUE(RecordSocket{ends[1]}.Write(1, UROCE_EVENT_COMPLETION));
  EXPECT_TRUE(RecordSocket{}.Write(1, UROCE_EVENT_COMPLETION)) << "where there is none";
  close(ends[1]);
}

/// A thread that sleeps on the word, for so long at most.
class SleepingThread {
 public:
  SleepingThread(uroce_line32& word, timespec limit)
      : value_(rings::AnnouncePoller(word, 1)), thread_([this, &word, limit] {
          errno = 0;
          syscall(SYS_futex, &word.value, FUTEX_WAIT, value_, &limit, nullptr, 0);
          error_ = errno;
        }) {
    usleep(10'000);  // So that it sleeps, most of the time.
  }
  /// 0: woken. EAGAIN: it came too late to sleep. ETIMEDOUT.
  int Join() {
    thread_.join();
    return error_;
  }

 private:
  uint32_t value_;
  int error_ = 0;
  std::thread thread_;
};

class PollersTest : public testing::Test {
 protected:
  uroce_line32 word_{};
  WakePace pace_;
  const Pollers pollers_{.word = &word_, .bit = 1, .pace = &pace_};
};

TEST_F(PollersTest, AQueueWithoutAWordHasNone) { EXPECT_FALSE(Pollers{}.any()); }

TEST_F(PollersTest, AThreadThatSleepsOnTheWordWakes) {
  SleepingThread sleeper(word_, {.tv_sec = 60, .tv_nsec = 0});
  EXPECT_TRUE(pollers_.any());
  pollers_.Wake();
  EXPECT_FALSE(pollers_.any());
  EXPECT_NE(sleeper.Join(), ETIMEDOUT);
}

TEST_F(PollersTest, WhoseWakeUpsAreDearWaits) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const Nanos now{int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
  pace_.Account(now, Nanos(1'000'000'000'000), /*is_own_time=*/true);
  SleepingThread sleeper(word_, {.tv_sec = 0, .tv_nsec = 50'000'000});
  pollers_.Wake();
  EXPECT_FALSE(pollers_.any()) << "nor is it made up for";
  EXPECT_NE(sleeper.Join(), 0);
}

}  // namespace
}  // namespace uroce::datapath
