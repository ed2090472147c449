// SPDX-License-Identifier: Apache-2.0
// Frames through a socket that stands for the kernel's: what the writer sends, the reader receives.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "drivers/kernel/packet_frames.h"
#include "pipeline/os/fd.h"
#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

using Bytes = std::vector<uint8_t>;

class PacketFramesTest : public FramePoolTest {
 protected:
  PacketFramesTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    ours_ = Fd(ends[0]);
    kernel_ = Fd(ends[1]);
  }

  rte_mbuf* FrameOf(const Bytes& bytes) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool());
    std::copy(bytes.begin(), bytes.end(), rte_pktmbuf_mtod(frame, uint8_t*));
    frame->data_len = static_cast<uint16_t>(bytes.size());
    frame->pkt_len = frame->data_len;
    return frame;
  }
  SentFrames Send(const std::vector<Bytes>& all, bool goes_on = false) {
    std::vector<rte_mbuf*> frames;
    for (const Bytes& bytes : all) frames.push_back(FrameOf(bytes));
    const SentFrames sent =
        writer_.Send(ours_, frames.data(), static_cast<uint16_t>(frames.size()), goes_on);
    rte_pktmbuf_free_bulk(frames.data() + sent.frames,
                          static_cast<unsigned>(frames.size() - sent.frames));
    return sent;
  }
  /// The next message at the kernel's end: its header, and its frame.
  bool Take(VnetHeader& header, Bytes& frame) const {
    Bytes message(70000);
    const ssize_t length = recv(kernel_.get(), message.data(), message.size(), MSG_DONTWAIT);
    if (length < static_cast<ssize_t>(sizeof header)) return false;
    std::memcpy(&header, message.data(), sizeof header);
    frame.assign(message.begin() + sizeof header, message.begin() + length);
    return true;
  }
  /// From the kernel's end.
  void Give(const VnetHeader& header, const Bytes& frame) const {
    Bytes message(sizeof header);
    std::memcpy(message.data(), &header, sizeof header);
    message.insert(message.end(), frame.begin(), frame.end());
    ASSERT_EQ(send(kernel_.get(), message.data(), message.size(), 0),
              static_cast<ssize_t>(message.size()));
  }
  std::vector<Bytes> Receive(uint16_t count = 32) {
    std::vector<rte_mbuf*> frames(count);
    frames.resize(reader_.Receive(ours_, pool(), frames.data(), count));
    std::vector<Bytes> received;
    for (rte_mbuf* frame : frames) {
      const auto* const bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
      received.emplace_back(bytes, bytes + frame->data_len);
      rte_pktmbuf_free(frame);
    }
    return received;
  }

  Fd ours_;
  Fd kernel_;
  PacketWriter writer_;
  PacketReader reader_;
  wire::PacketTrain train_;
};

TEST_F(PacketFramesTest, PacketsOfAFlowLeaveAsOneSuperframeAndComeBackAsTheyWere) {
  const std::vector<Bytes> packets = {train_.Next(1024), train_.Next(1024), train_.Next(100)};
  EXPECT_EQ(Send(packets).frames, 3);
  VnetHeader header;
  Bytes superframe;
  ASSERT_TRUE(Take(header, superframe));
  EXPECT_EQ(header.flags, kNeedsChecksum);
  EXPECT_EQ(header.gso_type, kGsoUdpPackets);
  EXPECT_EQ(header.hdr_len, 42);
  EXPECT_EQ(header.gso_size, packets[0].size() - 42);
  EXPECT_EQ(header.csum_start, 34);
  EXPECT_EQ(header.csum_offset, 6);
  Bytes other;
  VnetHeader other_header;
  EXPECT_FALSE(Take(other_header, other)) << "one message";
  Give(header, superframe);
  EXPECT_EQ(Receive(), packets);
  EXPECT_FALSE(reader_.has_frames());
}

// A packet alone is on the wire as any port sends it, without a UDP checksum.
TEST_F(PacketFramesTest, APacketAloneIsSentAsItIs) {
  const Bytes packet = train_.Next(1024);
  Send({packet});
  VnetHeader header;
  Bytes frame;
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(header.gso_type, kNoGso);
  EXPECT_EQ(header.flags, 0);
  EXPECT_EQ(frame, packet);
  Give(header, frame);
  EXPECT_EQ(Receive(), std::vector<Bytes>{packet});
}

TEST_F(PacketFramesTest, FlowsThatAlternateAreJoinedEachInItsOrder) {
  wire::PacketTrain other;
  other.udp_source_port = 0xc123;
  other.ipv6 = true;
  std::vector<Bytes> ones;
  std::vector<Bytes> twos;
  std::vector<Bytes> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(ones.emplace_back(train_.Next(1024)));
    all.push_back(twos.emplace_back(other.Next(512)));
  }
  EXPECT_EQ(Send(all).frames, 16);
  for (const std::vector<Bytes>& flow : {ones, twos}) {
    VnetHeader header;
    Bytes superframe;
    ASSERT_TRUE(Take(header, superframe));
    Give(header, superframe);
    EXPECT_EQ(Receive(), flow);
  }
}

// An acknowledgement between the data of a flow: whatever is joined, nothing overtakes.
TEST_F(PacketFramesTest, AShortPacketBetweenLongOnesKeepsItsPlace) {
  for (const bool ipv6 : {false, true}) {
    train_.ipv6 = ipv6;
    std::vector<Bytes> packets;
    for (const size_t bytes : {4, 1024, 1024, 4, 1024, 4, 4, 1024}) {
      packets.push_back(train_.Next(bytes));
    }
    EXPECT_EQ(Send(packets).frames, packets.size());
    std::vector<Bytes> received;
    VnetHeader header;
    for (Bytes frame; Take(header, frame);) {
      Give(header, frame);
      for (const Bytes& packet : Receive()) received.push_back(packet);
    }
    EXPECT_EQ(received, packets);
  }
}

// The FIRST of a WRITE is longer than the packets behind it: one of them may still end its
// superframe. Those behind it wait for the others of their message.
TEST_F(PacketFramesTest, TheLastSuperframeOfABurstThatGoesOnWaitsForTheRest) {
  std::vector<Bytes> packets = {train_.Next(1040)};
  for (int i = 0; i < 5; ++i) packets.push_back(train_.Next(1024));
  EXPECT_EQ(Send(packets, /*goes_on=*/true).frames, 2);
  VnetHeader header;
  Bytes frame;
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(header.gso_size, packets[0].size() - 42);
  EXPECT_FALSE(Take(header, frame)) << "the rest waits";
  packets.erase(packets.begin(), packets.begin() + 2);
  packets.push_back(train_.Next(1024));
  EXPECT_EQ(Send(packets).frames, packets.size());
  ASSERT_TRUE(Take(header, frame));
  Give(header, frame);
  EXPECT_EQ(Receive(), packets) << "in one superframe";
}

TEST_F(PacketFramesTest, APacketAloneDoesNotWaitForOthers) {
  EXPECT_EQ(Send({train_.Next(1040), train_.Next(1024), train_.Next(1024)}, true).frames, 3);
}

TEST_F(PacketFramesTest, TheOnlySuperframeDoesNotWait) {
  EXPECT_EQ(Send({train_.Next(1024), train_.Next(1024)}, true).frames, 2);
}

TEST_F(PacketFramesTest, ASuperframeThatNothingCanJoinDoesNotWait) {
  const std::vector<Bytes> packets = {train_.Next(1040), train_.Next(1024), train_.Next(1024),
                                      train_.Next(1024), train_.Next(100)};
  EXPECT_EQ(Send(packets, true).frames, packets.size()) << "a shorter packet ends it";
}

// What is not the end of the burst has nothing to wait for.
TEST_F(PacketFramesTest, SuperframesOfOtherFlowsDoNotWait) {
  wire::PacketTrain other;
  other.udp_source_port = 0xc123;
  const std::vector<Bytes> packets = {other.Next(1024), train_.Next(1024), train_.Next(1024),
                                      other.Next(1024)};
  EXPECT_EQ(Send(packets, true).frames, packets.size());
}

TEST_F(PacketFramesTest, WhatTheKernelHasNoRoomForStaysInOrder) {
  std::vector<Bytes> packets;
  for (int i = 0; i < 2000; ++i) {
    train_.identification += 2;  // None continues the one before.
    packets.push_back(train_.Next(1000));
  }
  std::vector<rte_mbuf*> frames;
  for (const Bytes& packet : packets) frames.push_back(FrameOf(packet));
  auto count = static_cast<uint16_t>(frames.size());
  SentFrames sent = writer_.Send(ours_, frames.data(), count);
  EXPECT_TRUE(sent.is_full);
  EXPECT_EQ(sent.dropped, 0);
  ASSERT_LT(sent.frames, count);
  uint16_t at = 0;
  for (size_t taken = 0; taken < packets.size(); ++taken) {
    VnetHeader header;
    Bytes frame;
    if (!Take(header, frame)) {
      at += sent.frames;
      sent = writer_.Send(ours_, frames.data() + at, static_cast<uint16_t>(count - at));
      ASSERT_NE(sent.frames, 0);
      ASSERT_TRUE(Take(header, frame));
    }
    ASSERT_EQ(frame, packets[taken]) << taken;
  }
}

TEST_F(PacketFramesTest, AnInterfaceThatIsGoneHasFramesDroppedAndCounted) {
  kernel_.Reset();
  const SentFrames sent = Send({train_.Next(64), train_.Next(64), train_.Next(1024)});
  EXPECT_EQ(sent.frames, 3);
  EXPECT_EQ(sent.dropped, 3);
  EXPECT_FALSE(sent.is_full);
}

TEST_F(PacketFramesTest, ASuperframeIsTakenInParts) {
  std::vector<Bytes> packets;
  for (int i = 0; i < 5; ++i) packets.push_back(train_.Next(1024));
  Send(packets);
  VnetHeader header;
  Bytes superframe;
  ASSERT_TRUE(Take(header, superframe));
  Give(header, superframe);
  EXPECT_EQ(Receive(2), (std::vector<Bytes>{packets[0], packets[1]}));
  EXPECT_TRUE(reader_.has_frames());
  EXPECT_EQ(Receive(2), (std::vector<Bytes>{packets[2], packets[3]}));
  EXPECT_EQ(Receive(2), std::vector<Bytes>{packets[4]});
  EXPECT_FALSE(reader_.has_frames());
}

// GRO joins packets that all have one identification, too. The ICRC tells.
TEST_F(PacketFramesTest, TheIcrcTellsTheIdentifications) {
  std::vector<Bytes> packets;
  Bytes superframe;
  for (int i = 0; i < 3; ++i) {
    train_.identification = 9;
    packets.push_back(train_.Next(256));
    superframe.insert(superframe.end(), packets[i].begin() + (i == 0 ? 0 : 42), packets[i].end());
  }
  const auto segment = static_cast<uint16_t>(packets[0].size() - 42);
  Give({.gso_type = kGsoUdpPackets, .hdr_len = 42, .gso_size = segment}, superframe);
  EXPECT_EQ(Receive(), packets);
}

TEST_F(PacketFramesTest, WhatIsNoPacketIsDroppedAndCounted) {
  const Bytes packet = train_.Next(64);
  Give({.gso_type = 1, .hdr_len = 54, .gso_size = 10}, packet);  // TCP.
  Give({.gso_type = kGsoUdpPackets, .gso_size = 0}, packet);     // No size.
  Give({.flags = kNeedsChecksum, .csum_start = 9000}, packet);   // Outside.
  Give({}, Bytes(5));                                            // No Ethernet header.
  Give({}, Bytes(3000));                                         // Longer than an mbuf.
  Give({}, {});                                                  // Nothing.
  Give({}, packet);
  EXPECT_EQ(Receive(), std::vector<Bytes>{packet});
  EXPECT_EQ(reader_.TakeCounts().dropped, 6u);
  EXPECT_EQ(reader_.TakeCounts().dropped, 0u);
}

}  // namespace
}  // namespace uroce::drivers
