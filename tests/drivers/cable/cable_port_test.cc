// SPDX-License-Identifier: Apache-2.0
// The in-process wire: order, back-pressure, ownership.
#include "drivers/cable/cable_port.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/qpn_owners.h"
#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {
namespace {

constexpr Nanos kNow{0};

class CablePortTest : public FramePoolTest {
 protected:
  Cable Make(uint32_t depth_frames) {
    auto cable = MakeCable({.mac = {2, 0, 0, 0, 0, 1}}, {.mac = {2, 0, 0, 0, 0, 2}},
                           {.depth_frames = depth_frames});
    EXPECT_TRUE(cable.ok()) << cable.status();
    return *std::move(cable);
  }
};

TEST_F(CablePortTest, FramesArriveAtTheOtherEndInOrder) {
  Cable cable = Make(64);
  std::vector<rte_mbuf*> sent;
  for (uint32_t i = 0; i < 20; ++i) sent.push_back(Frame(i));
  EXPECT_EQ(cable.first->TransmitBurst(0, sent.data(), 20, kNow), 20);
  rte_mbuf* received[32];
  EXPECT_EQ(cable.first->ReceiveBurst(0, received, 32, kNow), 0);
  ASSERT_EQ(cable.second->ReceiveBurst(0, received, 32, kNow), 20);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(received[i], sent[i]);
    EXPECT_EQ(NumberOf(received[i]), i);
    rte_pktmbuf_free(received[i]);
  }
}

TEST_F(CablePortTest, AFullRingHoldsTheSenderBackAndDropsNothing) {
  Cable cable = Make(8);
  EXPECT_EQ(cable.second->TransmitRoom(0), 8);
  std::vector<rte_mbuf*> sent;
  for (uint32_t i = 0; i < 10; ++i) sent.push_back(Frame(i));
  EXPECT_EQ(cable.second->TransmitBurst(0, sent.data(), 10, kNow), 8);
  EXPECT_EQ(cable.second->TransmitRoom(0), 0);
  EXPECT_EQ(cable.second->TransmitBurst(0, sent.data() + 8, 2, kNow), 0);
  rte_mbuf* received[10];
  ASSERT_EQ(cable.first->ReceiveBurst(0, received, 3, kNow), 3);
  EXPECT_EQ(cable.second->TransmitRoom(0), 3);
  EXPECT_EQ(cable.second->TransmitBurst(0, sent.data() + 8, 2, kNow), 2);
  ASSERT_EQ(cable.first->ReceiveBurst(0, received + 3, 10, kNow), 7);
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(NumberOf(received[i]), i);
    rte_pktmbuf_free(received[i]);
  }
}

TEST_F(CablePortTest, FramesStillOnTheWireAreFreedWithItsEnds) {
  Cable cable = Make(8);
  rte_mbuf* frame = Frame(1);
  EXPECT_EQ(cable.first->TransmitBurst(0, &frame, 1, kNow), 1);
  cable.first.reset();
  EXPECT_EQ(rte_mempool_avail_count(pool()), kFrames - 1);
  cable.second.reset();
}

TEST_F(CablePortTest, AnEndWhoseOtherEndIsGoneHasNoLinkAndLosesWhatItSends) {
  Cable cable = Make(8);
  EXPECT_TRUE(cable.second->Info().link_up);
  rte_mbuf* late = Frame(0);
  EXPECT_EQ(cable.first->TransmitBurst(0, &late, 1, kNow), 1);
  cable.first.reset();
  EXPECT_FALSE(cable.second->Info().link_up);
  EXPECT_NE(cable.second->Info().why_down, "");

  std::vector<rte_mbuf*> sent;
  for (uint32_t i = 0; i < 20; ++i) sent.push_back(Frame(i));
  for (int i = 0; i < 20; i += 5) {
    EXPECT_GT(cable.second->TransmitRoom(0), 0);
    EXPECT_EQ(cable.second->TransmitBurst(0, sent.data() + i, 5, kNow), 5);
  }
  cable.second->Maintain([](auto work) { work(); });
  EXPECT_EQ(cable.second->counters().tx_discards, 20u);
  rte_mbuf* received[4];
  ASSERT_EQ(cable.second->ReceiveBurst(0, received, 4, kNow), 1);
  EXPECT_EQ(received[0], late);
  rte_pktmbuf_free(late);
  EXPECT_EQ(rte_mempool_avail_count(pool()), kFrames);
}

TEST_F(CablePortTest, TwoThreadsMayDriveItsEnds) {
  constexpr uint32_t kCount = 200'000;
  Cable cable = Make(64);
  std::thread sender([&] {
    for (uint32_t i = 0; i < kCount;) {
      rte_mbuf* frame = Frame(i++);
      while (cable.first->TransmitBurst(0, &frame, 1, kNow) == 0) std::this_thread::yield();
    }
  });
  uint32_t expected = 0;
  while (expected < kCount) {
    rte_mbuf* received[32];
    const uint16_t count = cable.second->ReceiveBurst(0, received, 32, kNow);
    if (count == 0) std::this_thread::yield();
    for (uint16_t i = 0; i < count; ++i) {
      ASSERT_EQ(NumberOf(received[i]), expected++);
      rte_pktmbuf_free(received[i]);
    }
  }
  sender.join();
}

/// With queues for several workers.
class WideWireTest : public CablePortTest {
 protected:
  static constexpr uint16_t kQueues = 3;
  /// A frame for a queue pair of the worker.
  rte_mbuf* FrameFor(uint32_t worker, uint32_t number) {
    rte_mbuf* const frame = Frame(number);
    SetDestination(*frame, Qpn(FirstQpnOf(worker, kQueues) + 1));
    return frame;
  }
  std::vector<uint32_t> Receive(Port& port, uint16_t queue) {
    rte_mbuf* frames[32];
    const uint16_t count = port.ReceiveBurst(queue, frames, 32, kNow);
    std::vector<uint32_t> numbers;
    for (uint16_t i = 0; i < count; ++i) numbers.push_back(NumberOf(frames[i]));
    rte_pktmbuf_free_bulk(frames, count);
    return numbers;
  }
  void TearDown() override {
    cable_ = {};
    CablePortTest::TearDown();
  }
  static bool IsReadable(int fd) {
    pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 0) == 1;
  }

  Cable cable_ = MakeCable({}, {}, {.depth_frames = 4, .queues = kQueues}).value();
};

TEST_F(WideWireTest, AFrameArrivesAtTheQueueOfItsQueuePairsWorkerAndOthersAtTheFirst) {
  std::vector<rte_mbuf*> frames = {FrameFor(2, 0), FrameFor(2, 1), FrameFor(0, 2),
                                   FrameFor(1, 3), FrameFor(2, 4), Frame(5)};
  SetDestination(*frames[5], Qpn());
  EXPECT_EQ(cable_.first->queues(), kQueues);
  EXPECT_EQ(cable_.first->TransmitBurst(1, frames.data(), 6, kNow), 6);
  EXPECT_EQ(Receive(*cable_.second, 0), (std::vector<uint32_t>{2, 5}));
  EXPECT_EQ(Receive(*cable_.second, 1), (std::vector<uint32_t>{3}));
  EXPECT_EQ(Receive(*cable_.second, 2), (std::vector<uint32_t>{0, 1, 4}));
}

TEST_F(WideWireTest, AFrameForAMovedQueuePairArrivesAtItsNewWorker) {
  QpnOwners owners(kQueues);
  cable_.first->UseOwners(owners);
  std::vector<rte_mbuf*> frames = {FrameFor(2, 0), FrameFor(0, 1)};
  ASSERT_TRUE(owners.Move(DestinationOf(*frames[0]), 1));
  EXPECT_EQ(cable_.first->TransmitBurst(0, frames.data(), 2, kNow), 2);
  EXPECT_EQ(Receive(*cable_.second, 0), (std::vector<uint32_t>{1}));
  EXPECT_EQ(Receive(*cable_.second, 1), (std::vector<uint32_t>{0}));
  EXPECT_TRUE(Receive(*cable_.second, 2).empty());
}

TEST_F(WideWireTest, NoLaneHoldsASenderBackWhoseOtherEndIsGone) {
  cable_.first.reset();
  std::vector<rte_mbuf*> frames;
  for (uint32_t i = 0; i < 6; ++i) frames.push_back(FrameFor(2, i));
  frames.push_back(FrameFor(1, 6));
  EXPECT_EQ(cable_.second->TransmitBurst(0, frames.data(), 7, kNow), 7);
  EXPECT_GT(cable_.second->TransmitRoom(0), 0);
  cable_.second->Maintain([](auto work) { work(); });
  EXPECT_EQ(cable_.second->counters().tx_discards, 7u);
  EXPECT_EQ(rte_mempool_avail_count(pool()), kFrames);
}

TEST_F(WideWireTest, AFullLaneHoldsItsSenderBackAndNoOther) {
  std::vector<rte_mbuf*> frames;
  for (uint32_t i = 0; i < 5; ++i) frames.push_back(FrameFor(2, i));
  frames.push_back(FrameFor(1, 5));
  EXPECT_EQ(cable_.first->TransmitBurst(0, frames.data(), 6, kNow), 4);
  EXPECT_EQ(cable_.first->TransmitRoom(0), 0);
  EXPECT_EQ(cable_.first->TransmitRoom(1), 4);
  rte_mbuf* other = FrameFor(2, 6);
  EXPECT_EQ(cable_.first->TransmitBurst(1, &other, 1, kNow), 1);
  EXPECT_EQ(Receive(*cable_.second, 2).size(), 5u);
  EXPECT_EQ(cable_.first->TransmitBurst(0, frames.data() + 4, 2, kNow), 2);
}

TEST_F(WideWireTest, ASleepingQueueIsWokenOnceByFramesForItAlone) {
  Port& sleeper = *cable_.second;
  EXPECT_FALSE(sleeper.wakes_itself());
  ASSERT_TRUE(sleeper.BeforeSleep(2));
  rte_mbuf* frame = FrameFor(1, 0);
  EXPECT_EQ(cable_.first->TransmitBurst(0, &frame, 1, kNow), 1);
  EXPECT_FALSE(IsReadable(sleeper.wait_fd(2)));
  frame = FrameFor(2, 1);
  EXPECT_EQ(cable_.first->TransmitBurst(0, &frame, 1, kNow), 1);
  EXPECT_TRUE(IsReadable(sleeper.wait_fd(2)));
  sleeper.AfterSleep(2);
  EXPECT_FALSE(IsReadable(sleeper.wait_fd(2)));
  EXPECT_FALSE(sleeper.BeforeSleep(2)) << "a frame is there";
  sleeper.AfterSleep(2);
  EXPECT_FALSE(IsReadable(sleeper.wait_fd(1))) << "it did not sleep";
}

TEST_F(CablePortTest, InfoIsWhatWasConfiguredWithTheLinkUp) {
  Cable cable = Make(8);
  const PortInfo info = cable.second->Info();
  EXPECT_EQ(info.mac, (Mac{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(info.mtu_bytes, 9000u);
  EXPECT_TRUE(info.link_up);
  EXPECT_EQ(info.driver, "wire");
  EXPECT_EQ(info.ifindex, 0);
  EXPECT_TRUE(cable.second->wakes_itself());
}

TEST_F(CablePortTest, ADepthThatIsNoRingIsAnError) {
  EXPECT_FALSE(MakeCable({}, {}, {.depth_frames = 0}).ok());
  EXPECT_FALSE(MakeCable({}, {}, {.depth_frames = FrameQueue::kMaxDepthFrames + 1}).ok());
  EXPECT_FALSE(MakeCable({}, {}, {.queues = 0}).ok());
  EXPECT_FALSE(MakeCable({}, {}, {.queues = 65}).ok());
}

TEST(LocalMacTest, IsUnicastLocallyAdministeredAndStable) {
  for (uint32_t index = 0; index < 1000; ++index) {
    EXPECT_EQ(LocalMac("uroce0", index)[0] & 3, 2) << index;
  }
  EXPECT_EQ(LocalMac("uroce0", 0), LocalMac("uroce0", 0));
  EXPECT_NE(LocalMac("uroce0", 0), LocalMac("uroce0", 1));
  EXPECT_NE(LocalMac("uroce0", 0), LocalMac("uroce1", 0));
}

}  // namespace
}  // namespace uroce::drivers
