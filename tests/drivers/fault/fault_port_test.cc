// SPDX-License-Identifier: Apache-2.0
// Each fault alone and all together: from a seed, and with nothing unaccounted for.
#include "drivers/fault/fault_port.h"

#include <gtest/gtest.h>
#include <rte_ip.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/superframes.h"
#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kCount = 1000;

class FaultPortTest : public FramePoolTest {
 protected:
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
    FramePoolTest::TearDown();
  }

  /// A wire whose first end has the faults.
  void Make(const std::string& fault, uint32_t depth_frames = 512) {
    const auto config = ParseFault(fault);
    ASSERT_TRUE(config.ok()) << config.status();
    auto wire = MakeCable({}, {}, {.depth_frames = depth_frames});
    ASSERT_TRUE(wire.ok()) << wire.status();
    sender_ = std::make_unique<FaultPort>(std::move(wire->first), *config, pool());
    receiver_ = std::move(wire->second);
  }

  /// Sends `count` numbered frames one by one, then lets all time pass. What arrived, in order.
  std::vector<uint32_t> Pass(uint32_t count, Nanos step = Nanos(100)) {
    std::vector<uint32_t> arrived;
    Nanos now{0};
    for (uint32_t i = 0; i < count; ++i, now = now + step) {
      rte_mbuf* frame = Frame(i);
      EXPECT_EQ(sender_->TransmitBurst(0, &frame, 1, now), 1);
      Collect(now, arrived);
    }
    for (; sender_->NextDeadline(0) != kNever; now = std::max(now, sender_->NextDeadline(0))) {
      EXPECT_EQ(sender_->ReceiveBurst(0, nullptr, 0, now), 0);
      Collect(now, arrived);
    }
    return arrived;
  }

  void Collect(Nanos now, std::vector<uint32_t>& arrived) {
    rte_mbuf* frames[64];
    const uint16_t count = receiver_->ReceiveBurst(0, frames, 64, now);
    for (uint16_t i = 0; i < count; ++i) {
      arrived.push_back(NumberOf(frames[i]));
      rte_pktmbuf_free(frames[i]);
    }
  }

  FaultPort& sender() { return *sender_; }
  Port& receiver() { return *receiver_; }
  FaultCounters counters() { return sender_->transmit_counters(); }

 private:
  std::unique_ptr<FaultPort> sender_;
  std::unique_ptr<Port> receiver_;
};

std::vector<uint32_t> Numbers(uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST_F(FaultPortTest, WithoutFaultsEveryFramePassesInOrderAtOnce) {
  Make("seed=1");
  EXPECT_EQ(Pass(kCount), Numbers(kCount));
  EXPECT_EQ(sender().Info().driver, "wire");
}

TEST_F(FaultPortTest, FaultsChangeWhileFramesPass) {
  Make("seed=1");
  EXPECT_EQ(Pass(100), Numbers(100));
  EXPECT_EQ(counters().taken, 0u);
  sender().Set({.seed = 3, .drop = 1});
  EXPECT_EQ(sender().Info().driver, "fault(wire)");
  EXPECT_TRUE(Pass(100).empty());
  EXPECT_EQ(counters().dropped, 100u);
  sender().Set({});
  EXPECT_EQ(Pass(100), Numbers(100));
  EXPECT_EQ(counters().dropped, 100u);
}

TEST_F(FaultPortTest, WithoutALinkNothingPassesInEitherDirection) {
  Make("link=down,dir=rx");
  EXPECT_FALSE(sender().Info().link_up);
  EXPECT_NE(sender().Info().why_down, "");
  EXPECT_TRUE(Pass(100).empty());
  EXPECT_EQ(counters().dropped, 100u);
  rte_mbuf* frame = Frame(0);
  EXPECT_EQ(receiver().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
  EXPECT_EQ(sender().ReceiveBurst(0, &frame, 1, Nanos(0)), 0);
  EXPECT_EQ(sender().receive_counters().dropped, 1u);
  sender().Set({});
  EXPECT_TRUE(sender().Info().link_up);
  EXPECT_EQ(Pass(100), Numbers(100));
}

TEST_F(FaultPortTest, FramesThatItHoldsLeaveBeforeThoseThatNeedNotWait) {
  Make("delay=10us");
  rte_mbuf* frames[] = {Frame(0), Frame(1)};
  ASSERT_EQ(sender().TransmitBurst(0, frames, 1, Nanos(0)), 1);
  sender().Set({});
  ASSERT_EQ(sender().TransmitBurst(0, frames + 1, 1, Nanos(0)), 1);
  std::vector<uint32_t> arrived;
  Collect(Nanos(0), arrived);
  EXPECT_TRUE(arrived.empty());
  EXPECT_EQ(sender().ReceiveBurst(0, nullptr, 0, Nanos(10'000)), 0);
  Collect(Nanos(10'000), arrived);
  EXPECT_EQ(arrived, Numbers(2));
}

TEST_F(FaultPortTest, WithoutFaultsTheRoomIsThatOfThePort) {
  Make("seed=1", 8);
  EXPECT_EQ(sender().TransmitRoom(0), 8);
}

TEST_F(FaultPortTest, DropsAboutItsRateAndCountsEachOne) {
  Make("seed=3,drop=0.1");
  const std::vector<uint32_t> arrived = Pass(kCount);
  EXPECT_EQ(arrived.size(), kCount - counters().dropped);
  EXPECT_GT(counters().dropped, kCount / 20);
  EXPECT_LT(counters().dropped, kCount / 5);
  EXPECT_TRUE(std::is_sorted(arrived.begin(), arrived.end()));
}

TEST_F(FaultPortTest, DuplicatesArriveTwiceInARow) {
  Make("seed=3,duplicate=0.1");
  const std::vector<uint32_t> arrived = Pass(kCount);
  EXPECT_EQ(arrived.size(), kCount + counters().duplicated);
  EXPECT_GT(counters().duplicated, kCount / 20);
  EXPECT_TRUE(std::is_sorted(arrived.begin(), arrived.end()));
  std::map<uint32_t, int> times;
  for (const uint32_t number : arrived) ++times[number];
  EXPECT_EQ(times.size(), kCount);
}

TEST_F(FaultPortTest, ReorderedFramesArriveOnceAndBehindAtMostEightLaterOnes) {
  Make("seed=3,reorder=0.1");
  const std::vector<uint32_t> arrived = Pass(kCount);
  std::vector<uint32_t> sorted = arrived;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, Numbers(kCount));
  EXPECT_NE(arrived, sorted);
  EXPECT_GT(counters().reordered, kCount / 20);
  for (size_t i = 0; i < arrived.size(); ++i) {
    // A few held frames may leave together with the one in question.
    EXPECT_LE(static_cast<int64_t>(i) - arrived[i], 16) << arrived[i];
  }
}

TEST_F(FaultPortTest, AHeldFrameLeavesByItsDeadlineThoughNothingPasses) {
  Make("seed=1,reorder=1");
  rte_mbuf* frame = Frame(1);
  ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(1000)), 1);
  std::vector<uint32_t> arrived;
  Collect(Nanos(1000), arrived);
  EXPECT_TRUE(arrived.empty());
  const Nanos deadline = sender().NextDeadline(0);
  ASSERT_NE(deadline, kNever);
  EXPECT_EQ(sender().TransmitBurst(0, nullptr, 0, deadline - Nanos(1)), 0);
  Collect(deadline, arrived);
  EXPECT_TRUE(arrived.empty());
  EXPECT_EQ(sender().TransmitBurst(0, nullptr, 0, deadline), 0);
  Collect(deadline, arrived);
  EXPECT_EQ(arrived.size(), 1u);
  EXPECT_EQ(sender().NextDeadline(0), kNever);
}

TEST_F(FaultPortTest, DelayHoldsEveryFrameForExactlyThatTime) {
  Make("delay=10us");
  rte_mbuf* frame = Frame(1);
  ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(500)), 1);
  EXPECT_EQ(sender().NextDeadline(0), Nanos(10'500));
  std::vector<uint32_t> arrived;
  sender().ReceiveBurst(0, nullptr, 0, Nanos(10'499));
  Collect(Nanos(10'499), arrived);
  EXPECT_TRUE(arrived.empty());
  sender().ReceiveBurst(0, nullptr, 0, Nanos(10'500));
  Collect(Nanos(10'500), arrived);
  EXPECT_EQ(arrived.size(), 1u);
}

TEST_F(FaultPortTest, CorruptionChangesExactlyOneByte) {
  Make("corrupt=1");
  for (uint32_t i = 0; i < 200; ++i) {
    rte_mbuf* frame = Frame(0x5a5a5a5a);
    ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
    ASSERT_EQ(receiver().ReceiveBurst(0, &frame, 1, Nanos(0)), 1);
    const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
    EXPECT_EQ(std::count(bytes, bytes + frame->data_len, 0x5a), frame->data_len - 1);
    rte_pktmbuf_free(frame);
  }
  EXPECT_EQ(counters().corrupted, 200u);
}

TEST_F(FaultPortTest, WhatIsCorruptedHasItsIcrcBeforeAndIsChecked) {
  for (const char* fault : {"corrupt=1", "rule=corrupt"}) {
    Make(fault);
    const PendingIcrc pending;
    const std::vector<uint8_t> whole = wire::PacketTrain{}.Next(1024);
    rte_mbuf* frame = Frame(0, static_cast<uint16_t>(whole.size()));
    std::copy(whole.begin(), whole.end() - wire::kIcrcBytes, rte_pktmbuf_mtod(frame, uint8_t*));
    pending.Set(*frame);
    ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
    ASSERT_EQ(receiver().ReceiveBurst(0, &frame, 1, Nanos(0)), 1);
    EXPECT_FALSE(pending.IsSet(*frame)) << fault;
    size_t changed = 0;
    const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
    for (size_t i = 0; i < whole.size(); ++i) changed += bytes[i] != whole[i];
    EXPECT_EQ(changed, 1u) << fault;
    rte_pktmbuf_free(frame);
  }
}

TEST_F(FaultPortTest, CongestionMarkKeepsTheIpv4ChecksumRight) {
  Make("ce=1");
  rte_mbuf* frame = Frame(0);
  auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
  std::memset(bytes, 0, frame->data_len);
  bytes[12] = 0x08;
  auto* ip = reinterpret_cast<rte_ipv4_hdr*>(bytes + 14);
  ip->version_ihl = 0x45;
  ip->type_of_service = 0x68;
  ip->hdr_checksum = rte_ipv4_cksum(ip);
  ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
  ASSERT_EQ(receiver().ReceiveBurst(0, &frame, 1, Nanos(0)), 1);
  EXPECT_EQ(ip->type_of_service, 0x6b);
  const uint16_t checksum = ip->hdr_checksum;
  ip->hdr_checksum = 0;
  EXPECT_EQ(checksum, rte_ipv4_cksum(ip));
  EXPECT_EQ(counters().ce_marked, 1u);
  rte_pktmbuf_free(frame);
}

TEST_F(FaultPortTest, CongestionMarkReachesIpv6BehindATagAndSparesOtherFrames) {
  Make("ce=1");
  rte_mbuf* frame = Frame(0);
  auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
  std::memset(bytes, 0, frame->data_len);
  const uint8_t types[] = {0x81, 0x00, 0x00, 0x05, 0x86, 0xdd, 0x60};
  std::memcpy(bytes + 12, types, sizeof types);
  ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
  ASSERT_EQ(receiver().ReceiveBurst(0, &frame, 1, Nanos(0)), 1);
  EXPECT_EQ(bytes[18], 0x60);
  EXPECT_EQ(bytes[19], 0x30);
  rte_pktmbuf_free(frame);
  Pass(5);
  EXPECT_EQ(counters().ce_marked, 1u);
}

TEST_F(FaultPortTest, AllFaultsTogetherAccountForEveryFrame) {
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    Make(std::string("seed=") + seed +
         ",drop=0.05,duplicate=0.05,reorder=0.1,delay=3us,corrupt=0.05");
    const std::vector<uint32_t> arrived = Pass(kCount);
    EXPECT_EQ(counters().taken, kCount);
    EXPECT_EQ(arrived.size(), kCount - counters().dropped + counters().duplicated) << seed;
  }
}

TEST_F(FaultPortTest, TheSameSeedGivesTheSameFaults) {
  const std::string fault = ",drop=0.05,duplicate=0.05,reorder=0.1";
  Make("seed=9" + fault);
  const std::vector<uint32_t> first = Pass(kCount);
  Make("seed=9" + fault);
  EXPECT_EQ(Pass(kCount), first);
  Make("seed=10" + fault);
  EXPECT_NE(Pass(kCount), first);
}

TEST_F(FaultPortTest, DirectionLimitsFaultsToIt) {
  Make("drop=1,dir=rx");
  EXPECT_EQ(Pass(kCount).size(), kCount);
  rte_mbuf* frame = Frame(1);
  ASSERT_EQ(receiver().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
  EXPECT_EQ(sender().ReceiveBurst(0, &frame, 1, Nanos(0)), 0);
  EXPECT_EQ(sender().receive_counters().dropped, 1u);
}

TEST_F(FaultPortTest, AFullWireHoldsTheSenderBackAndLosesNothing) {
  Make("duplicate=0.5,reorder=0.2", 8);
  std::vector<rte_mbuf*> frames;
  for (uint32_t i = 0; i < 900; ++i) frames.push_back(Frame(i));
  uint16_t sent = sender().TransmitBurst(0, frames.data(), 900, Nanos(0));
  EXPECT_LT(sent, 900);
  EXPECT_LT(sender().TransmitRoom(0), 16);
  EXPECT_LE(sender().NextDeadline(0), Nanos(0));  // Something waits: do not sleep.
  std::vector<uint32_t> arrived;
  for (int64_t now = 0; sent < 900 || sender().NextDeadline(0) != kNever; now += 1000) {
    const auto left = static_cast<uint16_t>(900 - sent);
    sent = static_cast<uint16_t>(sent +
                                 sender().TransmitBurst(0, frames.data() + sent, left, Nanos(now)));
    Collect(Nanos(now), arrived);
  }
  Collect(Nanos(0), arrived);
  EXPECT_EQ(arrived.size(), 900 + counters().duplicated);
}

// Faults may begin between the turn that fills a superframe and the one that sends it.
TEST_F(FaultPortTest, ASuperframeThatMeetsFaultsIsCutIntoItsPackets) {
  Make("delay=1us");
  EXPECT_FALSE(sender().takes_superframes(0));
  LongBuffers buffers(1);
  wire::PacketTrain train;
  const std::vector<std::vector<uint8_t>> packets = {train.Next(1024), train.Next(1024)};
  rte_mbuf* superframe = SuperframeOf(buffers, packets);
  EXPECT_EQ(sender().TransmitBurst(0, &superframe, 1, Nanos(0)), 1);
  EXPECT_EQ(sender().ReceiveBurst(0, nullptr, 0, Nanos(1000)), 0);
  rte_mbuf* frames[4];
  ASSERT_EQ(receiver().ReceiveBurst(0, frames, 4, Nanos(1000)), 2);
  for (size_t i = 0; i < 2; ++i) {
    const auto* const bytes = rte_pktmbuf_mtod(frames[i], const uint8_t*);
    EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + frames[i]->data_len), packets[i]);
    rte_pktmbuf_free(frames[i]);
  }
  EXPECT_EQ(counters().taken, 2u);
}

TEST_F(FaultPortTest, FramesStillHeldAreFreedWithIt) {
  Make("delay=1s");
  rte_mbuf* frame = Frame(1);
  ASSERT_EQ(sender().TransmitBurst(0, &frame, 1, Nanos(0)), 1);
}

}  // namespace
}  // namespace uroce::drivers
