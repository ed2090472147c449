// SPDX-License-Identifier: Apache-2.0
// Ports at emulated switches: frames between them, workers that share them, sleep and waking.
#include "drivers/switch/switch_port.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/port/frames.h"
#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {
namespace {

constexpr fabric::LinkConfig kFast{.rate_bps = 100'000'000'000, .delay = Nanos(100)};
constexpr Nanos kLater{1'000'000};

Mac MacOf(uint32_t nic) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(nic)}; }

class SwitchPortTest : public FramePoolTest {
 protected:
  void TearDown() override {
    ports_.clear();
    network_.reset();
    FramePoolTest::TearDown();
  }
  void Make(uint16_t queues, const fabric::LinkConfig& link = kFast,
            const fabric::SwitchConfig& config = {}) {
    SwitchNetworkConfig network{.switches = {config}, .trunks = {}, .nics = {}, .queues = queues};
    for (uint32_t nic = 0; nic < 3; ++nic) {
      network.nics.push_back({.mac = MacOf(nic), .switch_index = 0, .link = link, .device = nic});
    }
    network_ = std::make_shared<SwitchNetwork>(network, pool());
    for (uint32_t nic = 0; nic < 3; ++nic) {
      ports_.push_back(std::make_unique<SwitchPort>(network_, nic));
    }
  }
  Port& port(uint32_t nic) { return *ports_[nic]; }
  /// As the daemon does for a NIC that is removed, and for one that is added.
  void Remove(uint32_t nic) {
    ports_[nic].reset();
    network().Unplug(nic);
  }
  void TakeIn(uint32_t nic, const Mac& mac, uint32_t device) {
    network().TakeIn(nic, {.mac = mac, .mtu_bytes = 1500, .switch_index = 0, .device = device});
    ports_[nic] = std::make_unique<SwitchPort>(network_, nic);
  }
  SwitchNetwork& network() { return *network_; }

  /// For a queue pair of `worker` at `nic`.
  rte_mbuf* FrameTo(uint32_t nic, uint32_t number, uint32_t worker = 0) {
    rte_mbuf* const frame = Frame(0, 64);
    SetDestination(*frame, Qpn(FirstQpnOf(worker, port(0).queues()) + 1));
    const Mac mac = MacOf(nic);
    std::memcpy(rte_pktmbuf_mtod(frame, uint8_t*), mac.data(), mac.size());
    std::memcpy(rte_pktmbuf_mtod_offset(frame, uint8_t*, 32), &number, sizeof number);
    return frame;
  }
  static uint32_t NumberIn(const rte_mbuf* frame) {
    uint32_t number = 0;
    std::memcpy(&number, rte_pktmbuf_mtod_offset(frame, const uint8_t*, 32), sizeof number);
    return number;
  }
  std::vector<uint32_t> Receive(uint32_t nic, uint16_t queue, Nanos now) {
    rte_mbuf* frames[64];
    const uint16_t count = port(nic).ReceiveBurst(queue, frames, 64, now);
    std::vector<uint32_t> numbers;
    for (uint16_t i = 0; i < count; ++i) numbers.push_back(NumberIn(frames[i]));
    rte_pktmbuf_free_bulk(frames, count);
    return numbers;
  }
  static bool IsReadable(int fd) {
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 0) == 1;
  }
  void SendOne(uint32_t from, rte_mbuf* frame, Nanos now, uint16_t queue = 0) {
    ASSERT_EQ(port(from).TransmitBurst(queue, &frame, 1, now), 1);
  }

 private:
  std::shared_ptr<SwitchNetwork> network_;
  std::vector<std::unique_ptr<SwitchPort>> ports_;
};

TEST_F(SwitchPortTest, FrameArrivesWhenItsTimeHasCome) {
  Make(1);
  SendOne(0, FrameTo(2, 5), Nanos(0));
  EXPECT_EQ(port(0).NextDeadline(0), Nanos(7 + 100));
  EXPECT_TRUE(Receive(2, 0, Nanos(210)).empty());
  EXPECT_EQ(Receive(2, 0, Nanos(220)), (std::vector<uint32_t>{5}));
  EXPECT_TRUE(Receive(1, 0, kLater).empty());
  EXPECT_EQ(port(0).NextDeadline(0), kNever);
}

TEST_F(SwitchPortTest, BroadcastIsCopiedForAllOthers) {
  Make(1);
  SendOne(0, FrameTo(0xff, 9), Nanos(0));  // No host has the address.
  EXPECT_TRUE(Receive(0, 0, kLater).empty());
  EXPECT_EQ(Receive(1, 0, kLater), (std::vector<uint32_t>{9}));
  EXPECT_EQ(Receive(2, 0, kLater), (std::vector<uint32_t>{9}));
}

TEST_F(SwitchPortTest, SlowLinkHoldsItsSenderBackAndSaysUntilWhen) {
  Make(1, {.rate_bps = 1'000'000'000, .host_queue_bytes = 128});
  uint32_t sent = 0;
  while (port(0).TransmitRoom(0) != 0) SendOne(0, FrameTo(1, sent++), Nanos(0));
  EXPECT_EQ(sent, 3u);  // One on the line, two wait.
  rte_mbuf* frame = FrameTo(1, sent);
  EXPECT_EQ(port(0).TransmitBurst(0, &frame, 1, Nanos(0)), 0);
  EXPECT_EQ(port(0).NextDeadline(0), Nanos(88 * 8));
  Receive(1, 0, port(0).NextDeadline(0));
  EXPECT_EQ(port(0).TransmitBurst(0, &frame, 1, Nanos(88 * 8)), 1);
  EXPECT_EQ(Receive(1, 0, kLater), (std::vector<uint32_t>{0, 1, 2, 3}));
}

// 88 bytes at 1 Gb/s are 704 ns: 1420 frames a millisecond. 8 KB in the host are 130 of them.
TEST_F(SwitchPortTest, WorkerThatWasAwayMissesNoTimeOfTheLine) {
  Make(1, {.rate_bps = 1'000'000'000, .host_queue_bytes = 8'000});
  uint32_t sent = 0;
  size_t received = 0;
  const auto turn = [&](Nanos now) {
    while (const size_t more = Receive(1, 0, now).size()) received += more;
    while (port(0).TransmitRoom(0) != 0) SendOne(0, FrameTo(1, sent++), now);
  };
  turn(Nanos(0));
  int turns = 0;
  for (; port(0).NextDeadline(0) <= Nanos(1'000'000) && turns < 200; ++turns) {
    turn(Nanos(1'000'000 + turns));
  }
  EXPECT_LT(turns, 100);
  EXPECT_NEAR(static_cast<double>(received), 1'420, 70);
  EXPECT_EQ(network().now(), Nanos(1'000'000 + turns - 1));
}

TEST_F(SwitchPortTest, TimeInWhichNothingHappensIsNoLag) {
  Make(1);
  SendOne(0, FrameTo(1, 1), Nanos(5'000'000'000));
  EXPECT_EQ(network().now(), Nanos(5'000'000'000));
  Receive(0, 0, Nanos(9'000'000'000));
  EXPECT_EQ(Receive(1, 0, Nanos(9'000'000'001)), (std::vector<uint32_t>{1}));
  EXPECT_EQ(network().now(), Nanos(9'000'000'001));
}

TEST_F(SwitchPortTest, WhatFindsItsReceiveQueueFullIsDroppedAndCounted) {
  Make(1, {.rate_bps = 100'000'000'000, .host_queue_bytes = 1 << 20});
  constexpr uint32_t kCount = kSwitchReceiveFrames + 20;
  for (uint32_t i = 0; i < kCount; ++i) SendOne(0, FrameTo(1, i), Nanos(0));
  size_t received = Receive(1, 0, kLater).size();
  EXPECT_EQ(port(1).counters().rx_missed, 20u);
  while (const size_t more = Receive(1, 0, kLater).size()) received += more;
  EXPECT_EQ(received, kSwitchReceiveFrames);
}

TEST_F(SwitchPortTest, LinkStateAndSpeedAreThoseOfTheLink) {
  Make(1);
  EXPECT_TRUE(port(1).Info().link_up);
  EXPECT_EQ(port(1).Info().speed_bps, kFast.rate_bps);
  EXPECT_EQ(port(1).Info().mac, MacOf(1));
  network().SetUp(network().fabric().CableOf(1), false);
  EXPECT_FALSE(port(1).Info().link_up);
  EXPECT_TRUE(port(0).Info().link_up);
  SendOne(0, FrameTo(1, 1), Nanos(0));
  SendOne(1, FrameTo(0, 2), Nanos(0));
  EXPECT_TRUE(Receive(1, 0, kLater).empty());
  EXPECT_TRUE(Receive(0, 0, kLater).empty());
}

TEST_F(SwitchPortTest, FramesOnTheirWayAreFreedWithTheNetwork) {
  Make(2);
  SendOne(0, FrameTo(1, 1), Nanos(0));
  SendOne(0, FrameTo(1, 2), Nanos(0), 1);  // In a ring to worker 0.
  network();
}

TEST_F(SwitchPortTest, APlaceIsFreeFromTheEndOfItsPortOn) {
  Make(1);
  EXPECT_EQ(network().FreeHost(0), std::nullopt);
  EXPECT_EQ(network().HostOf(0), 0u);
  Remove(1);
  EXPECT_EQ(network().FreeHost(0), 1u);
  EXPECT_EQ(network().FreeHost(1), std::nullopt);  // Another switch.
  TakeIn(1, MacOf(9), 70);
  EXPECT_EQ(network().FreeHost(0), std::nullopt);
  EXPECT_EQ(network().HostOf(70), 1u);
}

TEST_F(SwitchPortTest, ANicThatIsTakenInHasALinkWhenItIsPluggedIn) {
  Make(1);
  network().SetLink(network().fabric().CableOf(1), {.rate_bps = 5'000'000'000});
  Remove(1);
  TakeIn(1, MacOf(9), 70);
  EXPECT_FALSE(port(1).Info().link_up);
  EXPECT_EQ(port(1).Info().mac, MacOf(9));
  EXPECT_EQ(port(1).Info().mtu_bytes, 1500u);
  network().Plug(1);
  EXPECT_TRUE(port(1).Info().link_up);
  EXPECT_EQ(port(1).Info().speed_bps, 5'000'000'000u);  // The port's, with any NIC.
  SendOne(0, FrameTo(9, 5), Nanos(0));
  SendOne(1, FrameTo(2, 6), Nanos(0));
  EXPECT_EQ(Receive(1, 0, kLater), (std::vector<uint32_t>{5}));
  EXPECT_EQ(Receive(2, 0, kLater), (std::vector<uint32_t>{6}));
}

// The pool counts frames that were not freed.
TEST_F(SwitchPortTest, WhatIsUnderWayToARemovedNicIsDroppedAndCounted) {
  Make(2);
  SendOne(0, FrameTo(1, 1), Nanos(0));
  SendOne(0, FrameTo(1, 2, 1), Nanos(0));
  EXPECT_TRUE(Receive(0, 0, kLater).empty());  // Both are in the queues of NIC 1 now.
  SendOne(1, FrameTo(2, 3), kLater, 1);        // In a ring to worker 0.
  SendOne(0, FrameTo(1, 4), kLater);           // On the line.
  Remove(1);
  SendOne(0, FrameTo(1, 5), kLater);
  EXPECT_TRUE(Receive(2, 0, Nanos(2'000'000)).empty());
  const fabric::Fabric& fabric = network().fabric();
  EXPECT_EQ(fabric.link(2 * fabric.CableOf(1) + 1).counters.down_drops, 2u);
  TakeIn(1, MacOf(1), 70);
  network().Plug(1);
  EXPECT_TRUE(Receive(1, 0, Nanos(3'000'000)).empty());
  EXPECT_TRUE(Receive(1, 1, Nanos(3'000'000)).empty());
  EXPECT_EQ(port(1).counters().rx_missed, 0u);
  SendOne(0, FrameTo(1, 6, 1), Nanos(3'000'000));
  EXPECT_TRUE(Receive(0, 0, Nanos(4'000'000)).empty());
  EXPECT_EQ(Receive(1, 1, Nanos(4'000'000)), (std::vector<uint32_t>{6}));
}

TEST_F(SwitchPortTest, FrameGoesToTheWorkerOfItsQueuePairAndWakesIt) {
  Make(2);
  EXPECT_TRUE(port(1).BeforeSleep(1));
  SendOne(0, FrameTo(1, 3, 1), Nanos(0));
  EXPECT_FALSE(IsReadable(port(1).wait_fd(1)));
  EXPECT_TRUE(Receive(1, 0, kLater).empty());
  EXPECT_TRUE(IsReadable(port(1).wait_fd(1)));
  port(1).AfterSleep(1);
  EXPECT_FALSE(IsReadable(port(1).wait_fd(1)));
  EXPECT_FALSE(port(1).BeforeSleep(1));  // The frame is there.
  port(1).AfterSleep(1);
  EXPECT_EQ(Receive(1, 1, kLater), (std::vector<uint32_t>{3}));
}

TEST_F(SwitchPortTest, WorkerZeroWakesForWhatOthersSend) {
  Make(2);
  EXPECT_TRUE(port(0).BeforeSleep(0));
  EXPECT_EQ(port(0).NextDeadline(0), kNever);
  SendOne(0, FrameTo(1, 4), Nanos(0), 1);
  EXPECT_TRUE(IsReadable(port(0).wait_fd(0)));
  port(0).AfterSleep(0);
  EXPECT_FALSE(port(0).BeforeSleep(0));
  port(0).AfterSleep(0);
  EXPECT_TRUE(Receive(0, 0, Nanos(1'000)).empty());
  EXPECT_NE(port(0).NextDeadline(0), kNever);
  EXPECT_EQ(port(0).NextDeadline(1), kNever);
  EXPECT_EQ(Receive(1, 0, kLater), (std::vector<uint32_t>{4}));
}

// Three workers send to and receive by all ports at once, as in a daemon. Nothing is lost, and what
// one worker sends to one other is in order.
TEST_F(SwitchPortTest, WorkersMayDriveTheirQueuesAtOnce) {
  constexpr uint16_t kWorkers = 3;
  constexpr uint32_t kEach = 3'000;
  Make(kWorkers, {.rate_bps = 100'000'000'000, .delay = Nanos(10)}, {.buffer_bytes = 1 << 30});
  std::atomic<uint32_t> received{0}, disordered{0};
  std::atomic<int64_t> clock{0};
  const auto work = [&](uint16_t worker) {
    uint32_t sent = 0;
    std::vector<uint32_t> last(kWorkers, 0);
    while (received.load() < kWorkers * kEach) {
      // The room for frames bounds what is on its way: no receive queue overflows.
      const bool may_send = sent < kEach && sent < received.load() / kWorkers + 100;
      if (may_send) {
        rte_mbuf* frame = FrameTo((sent + 1) % 3, worker << 24 | (sent + 1), sent % kWorkers);
        if (port(sent % 3).TransmitBurst(worker, &frame, 1, Nanos(clock.load())) == 1) {
          ++sent;
        } else {
          rte_pktmbuf_free(frame);
        }
      }
      if (worker == 0) clock.fetch_add(500);
      for (uint32_t nic = 0; nic < 3; ++nic) {
        for (const uint32_t number : Receive(nic, worker, Nanos(clock.load()))) {
          uint32_t& before = last[number >> 24];
          if ((number & 0xffffff) <= before && nic == (before % 3)) disordered.fetch_add(1);
          before = number & 0xffffff;
          received.fetch_add(1);
        }
      }
      if (!may_send) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (uint16_t worker = 0; worker < kWorkers; ++worker) threads.emplace_back(work, worker);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received.load(), kWorkers * kEach);
  EXPECT_EQ(disordered.load(), 0u);
  for (uint32_t nic = 0; nic < 3; ++nic) EXPECT_EQ(port(nic).counters().rx_missed, 0u);
}

}  // namespace
}  // namespace uroce::drivers
