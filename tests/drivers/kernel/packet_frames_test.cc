// SPDX-License-Identifier: Apache-2.0
// Frames through a socket that stands for the kernel's: what the writer sends, the reader receives.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "drivers/kernel/packet_frames.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/superframes.h"
#include "pipeline/wire/icrc.h"
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
  SentFrames SendSuperframe(const std::vector<Bytes>& packets) {
    rte_mbuf* frame = SuperframeOf(buffers_, packets);
    return writer_.Send(ours_, &frame, 1);
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
  LongBuffers buffers_{4};
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

/// The UDP payloads of `packets`, each as long as the first but for the last, behind the first
/// frame.
Bytes Joined(const std::vector<Bytes>& packets) {
  Bytes all = packets[0];
  for (size_t i = 1; i < packets.size(); ++i) {
    all.insert(all.end(), packets[i].begin() + 42, packets[i].end());
  }
  return all;
}

// A worker that has put packets behind each other gives the kernel what a burst of them gives it.
TEST_F(PacketFramesTest, ASuperframeThatIsThereLeavesLikeTheFramesOfABurst) {
  const std::vector<Bytes> packets = {train_.Next(1024), train_.Next(1024), train_.Next(100)};
  Send(packets);
  VnetHeader header;
  Bytes of_burst;
  ASSERT_TRUE(Take(header, of_burst));
  EXPECT_EQ(SendSuperframe(packets).frames, 1);
  VnetHeader other_header;
  Bytes of_superframe;
  ASSERT_TRUE(Take(other_header, of_superframe));
  EXPECT_EQ(of_superframe, of_burst);
  EXPECT_EQ(std::memcmp(&header, &other_header, sizeof header), 0);
}

// What the kernel keeps in one block is more than its headers, and no more than the frame.
TEST_F(PacketFramesTest, AFrameMayBeInOneBlockOfTheKernel) {
  std::vector<Bytes> packets;
  for (int i = 0; i < 62; ++i) packets.push_back(train_.Next(1024));
  const std::vector<Bytes> few = {train_.Next(1024), train_.Next(1024), train_.Next(100)};
  const Bytes one = train_.Next(64);
  VnetHeader in_pages, header;
  Bytes frame, same;
  SendSuperframe(few);
  ASSERT_TRUE(Take(in_pages, frame));
  EXPECT_EQ(in_pages.hdr_len, 42);

  writer_.set_uses_blocks(true);
  SendSuperframe(few);
  ASSERT_TRUE(Take(header, same));
  EXPECT_EQ(same, frame);
  EXPECT_EQ(header.hdr_len, frame.size());
  header.hdr_len = in_pages.hdr_len;
  EXPECT_EQ(std::memcmp(&header, &in_pages, sizeof header), 0) << "nothing else differs";
  Send({one});
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(frame, one);
  EXPECT_EQ(header.hdr_len, one.size());
  EXPECT_EQ(header.gso_type, kNoGso);
  SendSuperframe(packets);
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(frame.size(), 42 + 62 * (packets[0].size() - 42));
  EXPECT_EQ(header.hdr_len, PacketWriter::kMostInBlock);

  writer_.set_uses_blocks(false);
  SendSuperframe(few);
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(header.hdr_len, 42);
}

TEST_F(PacketFramesTest, ASuperframeOfOnePacketIsSentAsAFrame) {
  const Bytes packet = train_.Next(1024);
  SendSuperframe({packet});
  VnetHeader header;
  Bytes frame;
  ASSERT_TRUE(Take(header, frame));
  EXPECT_EQ(header.gso_type, kNoGso);
  EXPECT_EQ(frame, packet);
}

// What is right is yielded as it came, in the buffer that it was read into.
TEST_F(PacketFramesTest, ASuperframeIsYieldedWholeToWhomAsksForIt) {
  const std::vector<Bytes> packets = {train_.Next(1024), train_.Next(1024), train_.Next(100)};
  const VnetHeader header{.gso_type = kGsoUdpPackets,
                          .gso_size = static_cast<uint16_t>(packets[0].size() - 42)};
  for (int i = 0; i < 100; ++i) {  // Buffers come back.
    Give(header, Joined(packets));
    rte_mbuf* frames[4];
    ASSERT_EQ(reader_.Receive(ours_, pool(), frames, 4, /*whole=*/true), 1);
    EXPECT_EQ(PacketsOf(*frames[0]), 3u);
    EXPECT_EQ(CutToBytes(frames[0]), packets);
  }
}

TEST_F(PacketFramesTest, ASuperframeWithADamagedPacketIsCut) {
  const std::vector<Bytes> packets = {train_.Next(1024), train_.Next(1024), train_.Next(100)};
  Bytes superframe = Joined(packets);
  superframe[2200] ^= 1;
  Give({.gso_type = kGsoUdpPackets, .gso_size = static_cast<uint16_t>(packets[0].size() - 42)},
       superframe);
  rte_mbuf* frames[4];
  ASSERT_EQ(reader_.Receive(ours_, pool(), frames, 4, /*whole=*/true), 3);
  for (rte_mbuf* frame : frames) {
    if (frame == frames[3]) break;
    EXPECT_EQ(PacketsOf(*frame), 1u);
    rte_pktmbuf_free(frame);
  }
}

// Frames that are kept keep their buffers: what comes then is cut.
TEST_F(PacketFramesTest, WithoutABufferToSpareASuperframeIsCut) {
  const std::vector<Bytes> packets = {train_.Next(1024), train_.Next(100)};
  const VnetHeader header{.gso_type = kGsoUdpPackets,
                          .gso_size = static_cast<uint16_t>(packets[0].size() - 42)};
  std::vector<rte_mbuf*> kept;
  bool is_cut = false;
  for (int i = 0; i < 64 && !is_cut; ++i) {
    Give(header, Joined(packets));
    rte_mbuf* frames[4];
    const uint16_t count = reader_.Receive(ours_, pool(), frames, 4, /*whole=*/true);
    kept.insert(kept.end(), frames, frames + count);
    is_cut = count == 2;
  }
  EXPECT_TRUE(is_cut);
  for (size_t i = 0; i + 2 < kept.size(); ++i) EXPECT_EQ(CutToBytes(kept[i]), packets) << i;
  EXPECT_EQ(FrameBytes(*kept[kept.size() - 2]).size(), packets[0].size());
  rte_pktmbuf_free_bulk(kept.data() + kept.size() - 2, 2);
}

// The kernel of this port takes no superframes: it is asked once.
TEST_F(PacketFramesTest, PacketsOfASuperframeLeaveOneByOneIfTheyMust) {
  SuperframeSender sender;
  std::vector<Bytes> sent;
  int room = 1000;
  const auto kernel = [&](const FrameGroups& groups, rte_mbuf* const* frames) {
    if (groups[0].builder->segments() > 1) {
      errno = EOPNOTSUPP;
      return -1;
    }
    if (room-- == 0) {
      errno = EAGAIN;
      return -1;
    }
    // As a UDP socket does: it gives the packet other numbers before it is sent.
    wire::Renumber(FrameBytes(*frames[groups[0].first]), groups[0].builder->places(), 0xc0de, 0);
    const auto bytes = FrameBytes(*frames[groups[0].first]);
    sent.emplace_back(bytes.begin(), bytes.end());
    return 1;
  };
  const auto refusal = [](int error) {
    return error == EOPNOTSUPP ? SuperframeSender::Refusal::kEver
                               : SuperframeSender::Refusal::kNone;
  };
  std::vector<Bytes> packets;
  for (const size_t bytes : {1024, 1024, 1024, 100}) packets.push_back(train_.Next(bytes));
  rte_mbuf* frame = SuperframeOf(buffers_, packets);
  room = 2;  // It goes on where it stopped.
  SentFrames result = sender.Send(&frame, 1, false, kernel, refusal);
  EXPECT_EQ(result.frames, 0);
  EXPECT_TRUE(result.is_full);
  EXPECT_FALSE(sender.sends_superframes());
  room = 1000;
  result = sender.Send(&frame, 1, false, kernel, refusal);
  EXPECT_EQ(result.frames, 1);
  EXPECT_EQ(result.dropped, 0u);
  for (Bytes& packet : packets) {
    wire::Renumber(packet, *wire::FindUdp(packet), 0xc0de, 0);
  }
  // The checksum of the IPv4 header is the kernel's, where the kernel writes it.
  for (std::vector<Bytes>* all : {&sent, &packets}) {
    for (Bytes& each : *all) each[24] = each[25] = 0;
  }
  EXPECT_EQ(sent, packets);
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
