// SPDX-License-Identifier: Apache-2.0
// Superframes: which frames they join, what the kernel is told, and what they are cut into.
#include "pipeline/wire/superframe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/wire/packet_train.h"

namespace uroce::wire {
namespace {

using Added = SuperframeBuilder::Added;
using Frame = std::vector<uint8_t>;

constexpr size_t kUdpHeader = 8;

uint16_t Word(const Frame& frame, size_t at) {
  return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

/// The sum of RFC 1071 over the bytes, and `sum` before.
uint16_t SumOf(const Frame& frame, size_t begin, size_t end, uint32_t sum = 0) {
  for (size_t i = begin; i < end; i += 2) sum += Word(frame, i);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

class SuperframeTest : public testing::TestWithParam<bool> {
 protected:
  SuperframeTest() { train_.ipv6 = GetParam(); }
  size_t payload_offset() const { return GetParam() ? 62 : 42; }

  Frame Join(const SuperframeBuilder& builder, const std::vector<Frame>& frames) const {
    Frame superframe(kMaxUdpHeaderBytes);
    superframe.resize(builder.WriteHeaders(superframe.data()));
    EXPECT_EQ(superframe.size(), payload_offset());
    for (const Frame& frame : frames) {
      superframe.insert(superframe.end(), frame.begin() + static_cast<ptrdiff_t>(payload_offset()),
                        frame.end());
    }
    return superframe;
  }

  PacketTrain train_;
};
INSTANTIATE_TEST_SUITE_P(Ip, SuperframeTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "V6" : "V4"; });

TEST_P(SuperframeTest, WhatIsCutIsWhatWasJoined) {
  std::vector<Frame> frames;
  for (const size_t bytes : {1024, 1024, 1024, 500}) frames.push_back(train_.Next(bytes));
  SuperframeBuilder builder(frames[0]);
  for (size_t i = 1; i < frames.size(); ++i) EXPECT_EQ(builder.Add(frames[i]), Added::kYes) << i;
  EXPECT_EQ(builder.segments(), 4u);
  EXPECT_EQ(builder.segment_bytes(), frames[0].size() - payload_offset());
  const Frame superframe = Join(builder, frames);
  const auto cutter = SuperframeCutter::Make(superframe, builder.segment_bytes());
  ASSERT_TRUE(cutter);
  ASSERT_EQ(cutter->segments(), 4u);
  for (uint32_t i = 0; i < 4; ++i) {
    Frame cut(cutter->FrameBytes(i));
    cutter->Write(i, Identifications::kRising, cut.data());
    EXPECT_EQ(cut, frames[i]) << i;
  }
}

// The frame of each packet lies in place, where its headers overwrite the end of the one before.
TEST_P(SuperframeTest, PacketsAreFramesInPlaceOneAfterTheOther) {
  std::vector<Frame> frames;
  for (const size_t bytes : {1024, 1024, 1024, 500}) frames.push_back(train_.Next(bytes));
  Frame superframe = frames[0];
  for (size_t i = 1; i < frames.size(); ++i) {
    superframe.insert(superframe.end(),
                      frames[i].begin() + static_cast<ptrdiff_t>(payload_offset()),
                      frames[i].end());
  }
  const auto segment_bytes = static_cast<uint16_t>(frames[0].size() - payload_offset());
  const auto cutter = SuperframeCutter::Make(superframe, segment_bytes);
  ASSERT_TRUE(cutter);
  EXPECT_EQ(cutter->segment_bytes(), segment_bytes);
  for (uint32_t i = 0; i < 4; ++i) {
    uint8_t* const at = superframe.data() + cutter->PayloadOffset(i) - payload_offset();
    EXPECT_EQ(cutter->WriteHeaders(i, Identifications::kRising, at), payload_offset());
    EXPECT_EQ(Frame(at, at + cutter->FrameBytes(i)), frames[i]) << i;
  }
}

TEST_P(SuperframeTest, ABuilderTakesOneThatIsThere) {
  std::vector<Frame> frames;
  for (const size_t bytes : {1024, 1024, 500}) frames.push_back(train_.Next(bytes));
  SuperframeBuilder added(frames[0]);
  for (size_t i = 1; i < frames.size(); ++i) EXPECT_EQ(added.Add(frames[i]), Added::kYes) << i;
  const Frame whole = Join(added, frames);
  Frame placed = frames[0];
  placed.insert(placed.end(), whole.begin() + static_cast<ptrdiff_t>(frames[0].size()),
                whole.end());
  SuperframeBuilder builder(placed, added.segment_bytes());
  EXPECT_EQ(builder.segments(), 3u);
  EXPECT_EQ(builder.segment_bytes(), added.segment_bytes());
  EXPECT_EQ(Join(builder, {}),
            Frame(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(payload_offset())));
  EXPECT_FALSE(builder.HasRoom());
  EXPECT_EQ(builder.Add(train_.Next(500)), Added::kDoesNotFit);
  SuperframeBuilder alone(frames[0], added.segment_bytes());
  EXPECT_EQ(alone.segments(), 1u);
  EXPECT_EQ(alone.Add(frames[1]), Added::kYes);
}

// What Linux expects of a packet with CHECKSUM_PARTIAL: lengths of all, the checksum of the pseudo
// header in the UDP header.
TEST_P(SuperframeTest, ItsHeadersAreThoseOfOneLongPacket) {
  const std::vector<Frame> frames = {train_.Next(1024), train_.Next(1024)};
  SuperframeBuilder builder(frames[0]);
  ASSERT_EQ(builder.Add(frames[1]), Added::kYes);
  const Frame superframe = Join(builder, frames);
  const size_t udp = payload_offset() - kUdpHeader;
  const auto udp_bytes = static_cast<uint16_t>(superframe.size() - udp);
  EXPECT_EQ(Word(superframe, udp + 4), udp_bytes);
  const size_t addresses = GetParam() ? 14 + 8 : 14 + 12;
  EXPECT_EQ(Word(superframe, udp + 6), SumOf(superframe, addresses, udp, 17u + udp_bytes));
  if (GetParam()) {
    EXPECT_EQ(Word(superframe, 14 + 4), udp_bytes);
  } else {
    EXPECT_EQ(Word(superframe, 14 + 2), superframe.size() - 14);
    EXPECT_EQ(Word(superframe, 14 + 4), 0xfffe) << "the identification of the first";
    EXPECT_EQ(SumOf(superframe, 14, 34), 0xffff) << "the header's checksum";
  }
}

TEST_P(SuperframeTest, AShorterFrameIsTheLast) {
  const Frame first = train_.Next(1024);
  SuperframeBuilder builder(first);
  EXPECT_TRUE(builder.HasRoom());
  EXPECT_EQ(builder.Add(train_.Next(4)), Added::kYes);
  EXPECT_FALSE(builder.HasRoom());
  EXPECT_EQ(builder.Add(train_.Next(4)), Added::kDoesNotFit);
  EXPECT_EQ(builder.segments(), 2u);
}

TEST_P(SuperframeTest, ALongerFrameDoesNotFit) {
  const Frame first = train_.Next(512);
  SuperframeBuilder builder(first);
  EXPECT_EQ(builder.Add(train_.Next(1024)), Added::kDoesNotFit);
}

TEST_P(SuperframeTest, FramesWithOtherHeadersAreOfOtherFlows) {
  PacketTrain other = train_;
  const Frame first = train_.Next(1024);
  other.identification = train_.identification;
  other.udp_source_port = 0xc001;
  SuperframeBuilder builder(first);
  EXPECT_EQ(builder.Add(other.Next(1024)), Added::kOtherFlow);
  const Frame good = train_.Next(1024);
  const size_t traffic_class = 15;  // DSCP and ECN; of IPv6 a part of them.
  for (const size_t at : {size_t{0}, size_t{6}, traffic_class, payload_offset() - kUdpHeader}) {
    Frame changed = good;
    changed[at] ^= 1;
    EXPECT_EQ(builder.Add(changed), Added::kOtherFlow) << "byte " << at;
  }
  EXPECT_EQ(builder.Add(good), Added::kYes);
}

TEST_P(SuperframeTest, ItHoldsWhatLinuxTakes) {
  const Frame small = train_.Next(8);
  SuperframeBuilder many(small);
  for (uint32_t i = 1; i < kMaxSegments; ++i) ASSERT_EQ(many.Add(train_.Next(8)), Added::kYes);
  EXPECT_FALSE(many.HasRoom());
  EXPECT_EQ(many.Add(train_.Next(8)), Added::kDoesNotFit);
  const Frame large = train_.Next(4096);
  SuperframeBuilder few(large);
  size_t bytes = large.size() - 14;
  while (few.HasRoom()) {
    ASSERT_EQ(few.Add(train_.Next(4096)), Added::kYes);
    bytes += large.size() - payload_offset();
  }
  EXPECT_EQ(few.Add(train_.Next(4096)), Added::kDoesNotFit);
  EXPECT_LE(bytes, kMaxSuperframeBytes);
  EXPECT_GT(bytes + large.size() - payload_offset(), kMaxSuperframeBytes);
}

TEST_P(SuperframeTest, WhatIsNoPlainUdpIsLeftAlone) {
  const Frame good = train_.Next(64);
  EXPECT_TRUE(FindUdp(good));
  Frame tagged = good;
  tagged.insert(tagged.begin() + 12, {0x81, 0, 0, 5});
  EXPECT_FALSE(FindUdp(tagged));
  Frame tcp = good;
  tcp[GetParam() ? 20 : 23] = 6;
  EXPECT_FALSE(FindUdp(tcp));
  for (size_t length = 0; length < payload_offset(); ++length) {
    EXPECT_FALSE(FindUdp(std::span(good).first(length))) << length;
  }
  SuperframeBuilder builder(tagged);
  EXPECT_EQ(builder.Add(tagged), Added::kOtherFlow);
  EXPECT_EQ(builder.segments(), 1u);
}

// Which packets of a superframe a receiver may take as one.
class SegmentRunTest : public SuperframeTest {
 protected:
  static constexpr uint32_t kSegments = 6;

  SegmentRunTest() {
    for (uint32_t i = 0; i < kSegments; ++i) frames_.push_back(train_.Next(256));
  }
  uint8_t& Bth(uint32_t index, size_t at) { return frames_[index][payload_offset() + at]; }
  /// `last_bytes`: of the last packet.
  SegmentRun Find(uint32_t index, size_t last_bytes = SIZE_MAX) {
    frames_.back().resize(std::min(frames_.back().size(), last_bytes));
    superframe_ = frames_[0];
    for (uint32_t i = 1; i < kSegments; ++i) {
      superframe_.insert(superframe_.end(),
                         frames_[i].begin() + static_cast<ptrdiff_t>(payload_offset()),
                         frames_[i].end());
    }
    const auto segment_bytes = static_cast<uint16_t>(frames_[0].size() - payload_offset());
    return SuperframeCutter::Make(superframe_, segment_bytes)->FindRun(index);
  }

  std::vector<Frame> frames_;
  Frame superframe_;
};
INSTANTIATE_TEST_SUITE_P(Ip, SegmentRunTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "V6" : "V4"; });

TEST_P(SegmentRunTest, MiddlePacketsOfAMessageAreOneRun) {
  const SegmentRun run = Find(0);
  EXPECT_EQ(run.packets, kSegments);
  EXPECT_EQ(run.stride_bytes, 12 + 256 + 4u);
  EXPECT_FALSE(run.asks_for_ack);
  EXPECT_EQ(Find(4).packets, 2u);
}

TEST_P(SegmentRunTest, EachMayAskForAnAck) {
  Bth(3, 8) |= 0x80;
  EXPECT_TRUE(Find(0).asks_for_ack);
  EXPECT_TRUE(Find(3).asks_for_ack);
  EXPECT_EQ(Find(0).packets, kSegments);
  EXPECT_FALSE(Find(4).asks_for_ack);
}

TEST_P(SegmentRunTest, AShorterPacketIsNotOfTheRun) {
  EXPECT_EQ(Find(0, frames_[0].size() - 4).packets, kSegments - 1);
}

TEST_P(SegmentRunTest, AnotherPacketEndsIt) {
  const std::vector<Frame> frames = frames_;
  // Opcode, flags, P_Key, FECN and BECN, destination, reserved bits, PSN.
  for (const size_t at : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
    frames_ = frames;
    Bth(3, at) ^= 1;
    EXPECT_EQ(Find(0).packets, 3u) << at;
  }
}

TEST_P(SegmentRunTest, NoOtherKindOfPacketBeginsOne) {
  for (const Opcode opcode : {Opcode::kWriteFirst, Opcode::kWriteLast, Opcode::kWriteOnly,
                              Opcode::kSendFirst, Opcode::kAcknowledge, Opcode::kReadRequest}) {
    for (uint32_t i = 0; i < kSegments; ++i) Bth(i, 0) = static_cast<uint8_t>(opcode);
    EXPECT_EQ(Find(0).packets, 0u) << static_cast<int>(opcode);
  }
}

// PSNs have 24 bits.
TEST_P(SegmentRunTest, APsnMayWrap) {
  for (uint32_t i = 0; i < kSegments; ++i) {
    const uint32_t psn = 0xfffffd + i;
    for (size_t byte = 0; byte < 3; ++byte) {
      Bth(i, 9 + byte) = static_cast<uint8_t>(psn >> (16 - 8 * byte));
    }
  }
  EXPECT_EQ(Find(0).packets, kSegments);
}

TEST(SuperframeIpv4Test, IdentificationsThatDoNotRiseDoNotFit) {
  PacketTrain train;
  const Frame first = train.Next(64);
  SuperframeBuilder builder(first);
  const Frame second = train.Next(64);
  EXPECT_EQ(builder.Add(train.Next(64)), Added::kDoesNotFit) << "one is left out";
  EXPECT_EQ(builder.Add(first), Added::kDoesNotFit) << "the same again";
  EXPECT_EQ(builder.Add(second), Added::kYes);
}

TEST(SuperframeIpv4Test, FragmentsAndOptionsAreLeftAlone) {
  PacketTrain train;
  Frame fragment = train.Next(64);
  fragment[20] |= 0x20;
  EXPECT_FALSE(FindUdp(fragment));
  Frame options = train.Next(64);
  options[14] = 0x46;
  EXPECT_FALSE(FindUdp(options));
}

TEST(SuperframeIpv4Test, PacketsOfOneIdentificationAreCutAsSuch) {
  PacketTrain train;
  std::vector<Frame> frames;
  for (int i = 0; i < 3; ++i) {
    train.identification = 7;
    frames.push_back(train.Next(256));
  }
  Frame superframe = frames[0];
  for (int i = 1; i < 3; ++i) {
    superframe.insert(superframe.end(), frames[i].begin() + 42, frames[i].end());
  }
  const auto cutter =
      SuperframeCutter::Make(superframe, static_cast<uint16_t>(frames[0].size() - 42));
  ASSERT_TRUE(cutter);
  for (uint32_t i = 0; i < 3; ++i) {
    Frame cut(cutter->FrameBytes(i));
    cutter->Write(i, Identifications::kSame, cut.data());
    EXPECT_EQ(cut, frames[i]);
  }
}

TEST(SuperframeIpv4Test, WhatCannotBeCutIsRefused) {
  PacketTrain train;
  const Frame frame = train.Next(64);
  EXPECT_FALSE(SuperframeCutter::Make(frame, 0));
  EXPECT_FALSE(SuperframeCutter::Make(std::span(frame).first(42), 10));
  EXPECT_FALSE(SuperframeCutter::Make(std::span(frame).first(20), 10));
}

// The sum of the whole, with the completed checksum, is 0xffff (RFC 1071).
TEST(SuperframeIpv4Test, AChecksumIsCompleted) {
  PacketTrain train;
  const std::vector<Frame> frames = {train.Next(64), train.Next(64)};
  SuperframeBuilder builder(frames[0]);
  ASSERT_EQ(builder.Add(frames[1]), Added::kYes);
  Frame packet(kMaxUdpHeaderBytes);
  packet.resize(builder.WriteHeaders(packet.data()));
  for (const Frame& frame : frames) {
    packet.insert(packet.end(), frame.begin() + 42, frame.end());
  }
  ASSERT_TRUE(CompleteChecksum(packet, 34, 6));
  const auto udp_bytes = static_cast<uint32_t>(packet.size() - 34);
  EXPECT_EQ(SumOf(packet, 34, packet.size(), SumOf(packet, 26, 34, 17 + udp_bytes)), 0xffff);
  EXPECT_FALSE(CompleteChecksum(packet, packet.size(), 0));
  EXPECT_FALSE(CompleteChecksum(packet, packet.size() - 7, 6));
}

}  // namespace
}  // namespace uroce::wire
