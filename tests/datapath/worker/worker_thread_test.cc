// SPDX-License-Identifier: Apache-2.0
// A worker on its own thread: control's requests, and sleeping without missing anything. Nothing
// here depends on how long anything takes; a lost wake-up hangs the test.
#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "drivers/cable/cable_port.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

class WorkerThreadTest : public testing::TestWithParam<MrMode> {
 protected:
  static constexpr size_t kBytes = 64 * 1024;

  WorkerThreadTest() {
    if (GetParam() == MrMode::kCopied) bed_.StartCopyHelper();
    bed_.attributes.timeout = 20;  // 4.3 s: a helper that has lost its core is no lost packet.
    bed_.Connect(a_, b_);
  }
  ~WorkerThreadTest() override { bed_.worker->Stop(); }

  void WriteAndWait(uint64_t wr_id) {
    a_.PostSend({.opcode = kWrite,
                 .wr_id = wr_id,
                 .list = {Testbed::Sge(from_, 0, 5000)},
                 .remote_addr = to_.iova,
                 .rkey = to_.key});
    uroce_cqe cqe;
    while (!a_.PollSend(cqe)) std::this_thread::yield();
    EXPECT_EQ(cqe.wr_id, wr_id);
    EXPECT_EQ(cqe.status, 0);
  }
  /// The frames that a WRITE takes whose worker stands still for 20 timeouts after the first one.
  /// `arrives`: whether the frame of that number, from 1 on, does.
  uint64_t SentForAWriteWithAStall(const std::function<bool(uint64_t)>& arrives) {
    bed_.attributes.timeout = 8;  // 1 ms.
    Endpoint& c = bed_.AddEndpoint(0);
    bed_.Connect(c, bed_.AddEndpoint(1));
    bed_.ports[0].filter = [&](rte_mbuf*) {
      if (bed_.ports[0].sent == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return arrives(bed_.ports[0].sent);
    };
    bed_.worker->Start();
    c.PostSend({.opcode = kWrite, .wr_id = 1});  // Of no bytes: there is no helper to wait for.
    uroce_cqe cqe;
    while (!c.PollSend(cqe)) std::this_thread::yield();
    EXPECT_EQ(cqe.status, 0);
    bed_.worker->Stop();
    return bed_.ports[0].sent;
  }
  void WaitUntilAsleep() {
    while (std::atomic_ref(bed_.doorbells[0].sleeping.value).load() == 0) std::this_thread::yield();
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, GetParam());
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Modes, WorkerThreadTest, testing::Values(MrMode::kMapped, MrMode::kCopied),
                         [](const auto& mode) {
                           return mode.param == MrMode::kMapped ? "Mapped" : "Copied";
                         });

TEST_P(WorkerThreadTest, RunIsDoneWhenItReturnsAsleepOrAwake) {
  int runs = 0;
  bed_.worker->Run([&] { ++runs; });
  bed_.worker->Start();
  const std::thread::id here = std::this_thread::get_id();
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 0) WaitUntilAsleep();
    bed_.worker->Run([&] {
      ++runs;
      EXPECT_NE(std::this_thread::get_id(), here);
    });
  }
  bed_.worker->Stop();
  bed_.worker->Run([&] { ++runs; });
  EXPECT_EQ(runs, 1002);
}

/// How many objects were shown to a worker in each of its turns.
class ShownInTurns {
 public:
  explicit ShownInTurns(const Worker& worker) : worker_(worker) {}
  /// By the worker.
  void Count() { ++shown_[worker_.counters().turns.load()]; }
  size_t sum() const {
    size_t sum = 0;
    for (const auto& [turn, count] : shown_) sum += count;
    return sum;
  }
  size_t most() const {
    size_t most = 0;
    for (const auto& [turn, count] : shown_) most = std::max(most, count);
    return most;
  }

 private:
  const Worker& worker_;
  std::map<uint64_t, size_t> shown_;
};

constexpr size_t kMostPacketsInATurn = 32;

// A program with thousands of queue pairs delays the packets of others by some of them, not by all:
// a turn comes between.
TEST_P(WorkerThreadTest, ManyQueuePairsAreShownSomeInATurn) {
  const std::vector<QueuePair*> many(1000, a_.qp.get());
  ShownInTurns shown(*bed_.worker);
  bed_.worker->Start();
  bed_.worker->RunForEach(many, [&](QueuePair& qp) {
    EXPECT_EQ(&qp, a_.qp.get());
    shown.Count();
  });
  EXPECT_LE(shown.most(), kMostPacketsInATurn);
  EXPECT_EQ(shown.sum(), many.size());
}

TEST_P(WorkerThreadTest, PathsAndAgreementsOfAllAreChangedSomeInATurn) {
  constexpr size_t kPairs = 100;
  for (size_t i = 0; i < kPairs; ++i) bed_.AddPair();
  ShownInTurns paths(*bed_.worker), agreements(*bed_.worker);
  bed_.worker->Start();
  bed_.worker->RewritePaths([&](const QueuePair&, Path&) { return paths.Count(), false; });
  bed_.worker->SetSelectiveRepeat([&](const QueuePair&) -> std::optional<bool> {
    agreements.Count();
    return std::nullopt;
  });
  for (const ShownInTurns* shown : {&paths, &agreements}) {
    EXPECT_LE(shown->most(), kMostPacketsInATurn);
    EXPECT_EQ(shown->sum(), 2 * kPairs + 2);
  }
}

TEST_P(WorkerThreadTest, TheThreadHasItsOwnCacheOfFrames) {
  bed_.worker->Start();
  bed_.worker->Run([] { EXPECT_NE(rte_lcore_id(), LCORE_ID_ANY); });
}

TEST_P(WorkerThreadTest, ADoorbellWakesASleepingWorker) {
  bed_.worker->Start();
  for (uint64_t i = 0; i < 50; ++i) {
    WaitUntilAsleep();
    WriteAndWait(i);
  }
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 5000), 0);
}

// A thread that has lost its core finds its timers due, and the answer still to be taken.
TEST_P(WorkerThreadTest, WhatWasNotLostIsNotSentAgainAfterAStall) {
  EXPECT_EQ(SentForAWriteWithAStall([](uint64_t) { return true; }), 1u);
}

TEST_P(WorkerThreadTest, WhatWasLostBeforeAStallIsSentAgain) {
  EXPECT_GE(SentForAWriteWithAStall([](uint64_t sent) { return sent > 1; }), 2u);
}

// Turns that are all as long as a stall put timers off, not away.
TEST_P(WorkerThreadTest, WhatWasLostIsSentAgainThoughEveryTurnIsAStall) {
  bed_.ports[1].receive_takes = std::chrono::milliseconds(1);
  EXPECT_GE(SentForAWriteWithAStall([](uint64_t sent) { return sent > 1; }), 2u);
}

TEST_P(WorkerThreadTest, BackToBackMessagesGetThrough) {
  bed_.worker->Start();
  for (uint64_t i = 0; i < 2000; ++i) WriteAndWait(i);
}

// A lost wake-up hangs: nothing else brings the parked program back.
TEST(WorkerParkingTest, AParkedProgramIsHeardWhileAnotherKeepsTheWorkerAwake) {
  TestPool();
  std::vector<uint8_t> bytes = Pattern(4096, 1);
  Testbed bed({nullptr, nullptr}, 1, Nanos(1'000));
  bed.attributes.timeout = 20;
  const Endpoint::Limits of_other{.session = &bed.AddSession()};
  Endpoint& busy = bed.AddEndpoint(0);
  Endpoint& quiet = bed.AddEndpoint(0, of_other);
  bed.Connect(busy, bed.AddEndpoint(1));
  bed.Connect(quiet, bed.AddEndpoint(1, of_other));
  MemoryRegion& region = bed.Register(bytes.data(), bytes.size(), kAllAccess, MrMode::kMapped);
  const auto post = [&](Endpoint& end) {
    end.PostSend({.opcode = kWrite,
                  .list = {Testbed::Sge(region, 0, 64)},
                  .remote_addr = region.iova + 64,
                  .rkey = region.key});
  };
  uroce_cqe cqe;
  const auto keep_busy = [&] {
    post(busy);
    while (!busy.PollSend(cqe)) std::this_thread::yield();
  };
  bed.worker->Start();
  const std::atomic_ref<uint32_t> parked(quiet.session->doorbells(0)->sleeping.value);
  for (int i = 0; i < 50; ++i) {
    while (parked == 0) keep_busy();
    post(quiet);
    while (!quiet.PollSend(cqe)) keep_busy();
    EXPECT_EQ(cqe.status, 0);
  }
  bed.worker->Stop();
  bed.RemoveEndpoints();
}

/// A port that brings nothing and counts what it is asked.
class QuietPort : public TestPort {
 public:
  int wait_fd(uint16_t) const override { return fd; }
  bool BeforeSleep(uint16_t) override { return ++before > refusals; }
  void AfterSleep(uint16_t) override { after = before.load(); }

  int fd = -1;
  int refusals = 0;  ///< How many times frames are said to be there.
  std::atomic<int> before{0};
  std::atomic<int> after{0};
};

TEST(WorkerSleepTest, APortWithFramesKeepsTheWorkerAwake) {
  TestPool();
  QuietPort ports[2];
  ports[0].refusals = 3;
  Testbed bed({&ports[0], &ports[1]});
  bed.worker->Start();
  // Nothing wakes these ports: a worker that sleeps too early is not seen again.
  while (ports[0].before < 4) std::this_thread::yield();
  EXPECT_GE(ports[0].after, 3);
  bed.worker->Stop();
  EXPECT_EQ(ports[0].after, ports[0].before) << "AfterSleep follows each BeforeSleep";
  EXPECT_EQ(ports[1].after, ports[1].before);
}

TEST(WorkerSleepTest, APortsFdEndsTheSleepThatItWasAskedFor) {
  TestPool();
  QuietPort ports[2];
  ports[1].fd = eventfd(0, EFD_NONBLOCK);
  Testbed bed({&ports[0], &ports[1]});
  bed.worker->Start();
  while (ports[1].before == 0) std::this_thread::yield();
  const int before = ports[1].before;
  const uint64_t one = 1;
  ASSERT_EQ(write(ports[1].fd, &one, sizeof(one)), 8);
  while (ports[1].after < before) std::this_thread::yield();
  bed.worker->Stop();
  close(ports[1].fd);
}

/// Threads of two workers over a wire.
class WorkerThreadsTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 64 * 1024;

  ~WorkerThreadsTest() override { bed_.workers->Stop(); }
  bool IsAsleep(uint32_t worker) {
    return std::atomic_ref(bed_.doorbells[worker].sleeping.value).load() != 0;
  }
  void Write(Endpoint& end, uint32_t length, uint64_t wr_id) {
    end.PostSend({.opcode = kWrite,
                  .wr_id = wr_id,
                  .list = {Testbed::Sge(from_, 0, length)},
                  .remote_addr = to_.iova,
                  .rkey = to_.key});
  }
  static void Await(Endpoint& end, uint64_t wr_id) {
    uroce_cqe cqe;
    while (!end.PollSend(cqe)) std::this_thread::yield();
    EXPECT_EQ(cqe.wr_id, wr_id);
    EXPECT_EQ(cqe.status, 0);
  }

  drivers::Cable wire_ = (TestPool(), drivers::MakeCable({}, {}, {.queues = 2}).value());
  Testbed bed_{{wire_.first.get(), wire_.second.get()}, 2};
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerThreadsTest, AFrameWakesTheWorkerItIsFor) {
  Endpoint& a = bed_.AddEndpoint(0, {}, 0);
  Endpoint& b = bed_.AddEndpoint(1, {}, 1);
  bed_.attributes.timeout = 0;  // A lost wake-up hangs: nothing is sent again.
  bed_.Connect(a, b);
  bed_.workers->Start();
  for (uint64_t i = 0; i < 200; ++i) {
    if (i % 4 == 0) {
      while (!IsAsleep(0) || !IsAsleep(1)) std::this_thread::yield();
    }
    Write(a, 5000, i);
    Await(a, i);
  }
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 5000), 0);
}

TEST_F(WorkerThreadsTest, QueuePairsOfBothCarryDataBothWays) {
  std::vector<Endpoint*> ends;
  bed_.attributes.timeout = 20;
  for (const auto& [from, to] : {std::pair{0u, 0u}, {0u, 1u}, {1u, 0u}, {1u, 1u}}) {
    ends.push_back(&bed_.AddEndpoint(0, {}, from));
    ends.push_back(&bed_.AddEndpoint(1, {}, to));
    bed_.Connect(*ends[ends.size() - 2], *ends.back());
  }
  bed_.workers->Start();
  for (uint64_t round = 0; round < 20; ++round) {
    for (Endpoint* end : ends) Write(*end, 40'000, round);
    for (Endpoint* end : ends) Await(*end, round);
  }
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 40'000), 0);
}

TEST_F(WorkerThreadsTest, TogetherMeansThatNoWorkerTurns) {
  bed_.workers->Start();
  const auto turns = [&](uint32_t worker) -> uint64_t {
    return bed_.workers->at(worker).counters().turns;
  };
  for (int i = 0; i < 100; ++i) {
    bed_.workers->RunTogether([&] {
      const uint64_t first = turns(0), second = turns(1);
      std::this_thread::yield();
      EXPECT_EQ(turns(0), first);
      EXPECT_EQ(turns(1), second);
    });
  }
  int runs = 0;
  bed_.workers->RunOnEach([&](Worker&) { ++runs; });
  EXPECT_EQ(runs, 2) << "and all go on";
}

TEST_F(WorkerThreadsTest, AGracePeriodWakesNoSleeper) {
  bed_.workers->Start();
  while (!IsAsleep(0) || !IsAsleep(1)) std::this_thread::yield();
  // The flag is set before the worker sleeps: the first wait may meet its last look around.
  bed_.workers->AwaitGrace();
  const uint64_t turns = bed_.workers->at(0).counters().turns;
  for (int i = 0; i < 1000; ++i) bed_.workers->AwaitGrace();
  EXPECT_EQ(bed_.workers->at(0).counters().turns, turns);
}

TEST_F(WorkerThreadsTest, AGracePeriodEndsAfterTheTurnThatWasUnderWay) {
  bed_.workers->Start();
  std::atomic<bool> inside{false}, leave{false}, left{false};
  std::thread control([&] {
    bed_.workers->at(1).Run([&] {
      inside = true;
      while (!leave) std::this_thread::yield();
      left = true;
    });
  });
  while (!inside) std::this_thread::yield();
  std::thread helper([&] { leave = true; });
  bed_.workers->AwaitGrace();
  EXPECT_TRUE(left);
  control.join();
  helper.join();
}

TEST_P(WorkerThreadTest, QueuePairsLeaveInTheMiddleOfTheirWork) {
  bed_.worker->Start();
  for (int round = 0; round < 20; ++round) {
    Endpoint& c = bed_.AddEndpoint(0);
    Endpoint& d = bed_.AddEndpoint(1);
    bed_.Connect(c, d);
    for (uint64_t i = 0; i < 32; ++i) {
      c.PostSend({.opcode = kWrite,
                  .wr_id = i,
                  .list = {Testbed::Sge(from_, 0, 20'000)},
                  .remote_addr = to_.iova,
                  .rkey = to_.key});
    }
    bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(d.qp.get()); });
    bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(c.qp.get()); });
    bed_.endpoints.pop_back();
    bed_.endpoints.pop_back();
  }
  WriteAndWait(1);
  bed_.worker->Run([&] { bed_.keys.Unpublish(&to_); });
  const uint64_t generation = bed_.session->copy_generation();
  while (!bed_.session->CopiesDone(generation)) std::this_thread::yield();
}

}  // namespace
}  // namespace uroce::datapath
