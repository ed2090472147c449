// SPDX-License-Identifier: Apache-2.0
// Frames that are not RoCE: to the stack of the port and from it, beside the traffic of queue
// pairs.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "pipeline/datapath/frames/frame_link.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

using Bytes = std::vector<uint8_t>;
using Takes = HostLink::Takes;

constexpr uint32_t kDepth = 64;

Bytes Frame(uint16_t ether_type, size_t length, uint8_t to = 0xff) {
  Bytes frame(length, 0);
  std::fill_n(frame.begin(), 6, to);
  frame[12] = static_cast<uint8_t>(ether_type >> 8);
  frame[13] = static_cast<uint8_t>(ether_type);
  return frame;
}
Bytes Arp() { return Frame(0x0806, 60); }
Bytes Ip(uint8_t protocol) {
  Bytes frame = Frame(0x0800, 60);
  frame[14] = 0x45;
  frame[14 + 9] = protocol;
  return frame;
}
Bytes Ip6(uint8_t next_header) {
  Bytes frame = Frame(0x86dd, 60);
  frame[14] = 0x60;
  frame[14 + 6] = next_header;
  return frame;
}
Bytes Padded(const Bytes& frame, size_t length) {
  Bytes padded(length, 0x77);
  std::copy(frame.begin(), frame.end(), padded.begin());
  return padded;
}
Bytes Tagged(const Bytes& frame) {
  Bytes tagged(frame.size() + 4);
  std::copy_n(frame.begin(), 12, tagged.begin());
  tagged[12] = 0x81;
  tagged[15] = 0x05;
  std::copy(frame.begin() + 12, frame.end(), tagged.begin() + 16);
  return tagged;
}

bool IsReadable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, 0) == 1;
}

TEST(IsHostProtocolTest, ArpAndBothIcmpsAreTaggedOrNot) {
  for (const Bytes& frame : {Arp(), Ip(1), Ip6(58), Ip6(0)}) {
    EXPECT_TRUE(IsHostProtocol(frame));
    EXPECT_TRUE(IsHostProtocol(Tagged(frame)));
  }
  for (const Bytes& frame : {Ip(17), Ip(6), Ip6(17), Ip6(44), Frame(0x88cc, 60)}) {
    EXPECT_FALSE(IsHostProtocol(frame));
    EXPECT_FALSE(IsHostProtocol(Tagged(frame)));
  }
}

TEST(IsHostProtocolTest, ShortFramesAreRead) {
  const Bytes frame = Tagged(Ip(1));
  for (size_t length = 0; length < 14 + 4 + 9; ++length) {
    EXPECT_FALSE(IsHostProtocol({frame.data(), length})) << length;
  }
}

class WorkerHostTest : public testing::Test {
 protected:
  void Attach(Takes takes) {
    link_ = std::make_unique<HostLink>(takes, kDepth);
    bed_.devices[0]->host_link = link_.get();
  }
  ~WorkerHostTest() override { bed_.devices[0]->host_link = nullptr; }

  /// Has a frame arrive at the device with the link.
  void Arrive(const Bytes& bytes) {
    rte_mbuf* frame = rte_pktmbuf_alloc(TestPool());
    ASSERT_NE(frame, nullptr);
    std::copy(
        bytes.begin(), bytes.end(),
        reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size()))));
    bed_.ports[0].arrived.push_back(frame);
  }
  uint64_t Handed() const { return link_->counters().received.load(); }
  uint64_t NotRoce() { return bed_.devices[0]->counters(0).rx_not_roce.load(); }

  Testbed bed_;
  std::unique_ptr<HostLink> link_;
};

TEST_F(WorkerHostTest, WhatAHostSpeaksIsHandedOverWhole) {
  Attach(Takes::kHostProtocols);
  const Bytes frame = Padded(Ip(1), 2000);
  Arrive(frame);
  bed_.Settle();
  const auto got = link_->inbound().Front();
  EXPECT_EQ(Bytes(got.begin(), got.end()), frame);
  EXPECT_EQ(NotRoce(), 0u);
}

TEST_F(WorkerHostTest, OtherProtocolsAndOtherMacsAreCountedAndDropped) {
  Attach(Takes::kHostProtocols);
  Arrive(Ip(6));
  Arrive(Frame(0x88cc, 60));
  Bytes other = Arp();
  std::fill_n(other.begin(), 6, 0x02);
  Arrive(other);
  bed_.Settle();
  EXPECT_EQ(Handed(), 0u);
  EXPECT_EQ(NotRoce(), 3u);
}

TEST_F(WorkerHostTest, AnExceptionPathTakesAllThatIsNotRoce) {
  Attach(Takes::kEverything);
  Bytes fragment = Ip(17);
  fragment[14 + 6] = 0x20;
  Bytes options = Ip(17);
  options[14] = 0x46;
  const Bytes dns = Padded(Ip6(17), 80);
  for (const Bytes& frame : {Arp(), Ip(6), Frame(0x88cc, 60), fragment, options, dns})
    Arrive(frame);
  bed_.Settle();
  EXPECT_EQ(Handed(), 6u);
}

TEST_F(WorkerHostTest, MalformedRoceGoesToNoHost) {
  Attach(Takes::kEverything);
  Bytes roce = Padded(Ip6(17), 80);
  roce[14 + 40 + 2] = 4791 >> 8;
  roce[14 + 40 + 3] = 4791 & 0xff;
  Arrive(roce);
  bed_.Settle();
  EXPECT_EQ(Handed(), 0u);
  EXPECT_EQ(bed_.devices[0]->counters(0).rx_malformed.load(), 1u);
}

TEST_F(WorkerHostTest, AStackThatIsBehindLosesFramesAndTheyAreCounted) {
  Attach(Takes::kHostProtocols);
  for (uint32_t i = 0; i < kDepth + 10; ++i) Arrive(Arp());
  bed_.Settle();
  EXPECT_EQ(Handed(), kDepth);
  EXPECT_EQ(link_->counters().rx_discards.load(), 10u);
}

TEST_F(WorkerHostTest, AStackIsWokenOnceAndOnlyWhenItSleeps) {
  Attach(Takes::kHostProtocols);
  Arrive(Arp());
  bed_.Settle();
  EXPECT_TRUE(IsReadable(link_->wait_fd()));
  link_->ClearWake();
  Arrive(Arp());
  bed_.Settle();
  EXPECT_FALSE(IsReadable(link_->wait_fd())) << "it is awake and looks on its own";
  EXPECT_FALSE(link_->PrepareSleep()) << "there are frames";
  link_->inbound().Pop();
  link_->inbound().Pop();
  EXPECT_TRUE(link_->PrepareSleep());
  Arrive(Arp());
  bed_.Settle();
  EXPECT_TRUE(IsReadable(link_->wait_fd()));
}

TEST_F(WorkerHostTest, FramesOfTheStackGoOutUnchanged) {
  Attach(Takes::kHostProtocols);
  Bytes sent;
  bed_.ports[0].filter = [&sent](rte_mbuf* frame) {
    const auto* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
    sent.assign(bytes, bytes + frame->pkt_len);
    return false;
  };
  const Bytes frame = Padded(Arp(), 1514);
  EXPECT_TRUE(link_->Send(frame));
  bed_.Settle();
  EXPECT_EQ(sent, frame);
  EXPECT_EQ(link_->counters().sent.load(), 1u);
  EXPECT_EQ(bed_.devices[0]->counters(0).port_xmit_packets.load(), 1u);
}

TEST_F(WorkerHostTest, AStackThatSendsTooFastLosesFramesAndTheyAreCounted) {
  Attach(Takes::kHostProtocols);
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  for (uint32_t i = 0; i < kDepth; ++i) EXPECT_TRUE(link_->Send(Arp()));
  EXPECT_FALSE(link_->Send(Arp()));
  EXPECT_EQ(link_->counters().tx_discards.load(), 1u);
  bed_.Turn();
  EXPECT_EQ(bed_.ports[0].sent, HostLink::kFramesPerTurn);
  bed_.Settle();
  EXPECT_EQ(bed_.ports[0].sent, kDepth);
}

TEST_F(WorkerHostTest, AFrameLongerThanAnMbufIsCountedAndTheNextOneGoes) {
  Attach(Takes::kHostProtocols);
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  EXPECT_TRUE(link_->Send(Bytes(HostLink::kSlotBytes, 1)));
  EXPECT_TRUE(link_->Send(Arp()));
  bed_.Settle();
  EXPECT_EQ(link_->counters().too_long.load(), 1u);
  EXPECT_EQ(link_->counters().sent.load(), 1u);
}

TEST_F(WorkerHostTest, AFloodBesideTrafficDisturbsNothing) {
  Attach(Takes::kHostProtocols);
  Endpoint& a = bed_.AddEndpoint(0);
  Endpoint& b = bed_.AddEndpoint(1);
  bed_.Connect(a, b);
  Bytes source = Pattern(4096, 1);
  Bytes target(4096);
  MemoryRegion& from = bed_.Register(source.data(), 4096, kAllAccess, MrMode::kMapped);
  MemoryRegion& to = bed_.Register(target.data(), 4096, kAllAccess, MrMode::kMapped);
  a.PostSend({.opcode = kWrite,
              .wr_id = 1,
              .list = {Testbed::Sge(from, 0, 4096)},
              .remote_addr = to.iova,
              .rkey = to.key});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] {
    for (int i = 0; i < 20; ++i) Arrive(i % 2 == 0 ? Arp() : Ip(6));
    link_->Send(Arp());
    return a.PollSend(cqe);
  }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(source, target);
}

}  // namespace
}  // namespace uroce::datapath
