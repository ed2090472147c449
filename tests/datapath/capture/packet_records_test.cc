// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/capture/packet_records.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace uroce::datapath {
namespace {

constexpr uint64_t kRingBytes = 2048;
constexpr uroce_capture_note kNoNote{};

class CaptureTapTest : public testing::Test {
 protected:
  /// What a tool does: the next record, fillers skipped; false when there is none.
  bool Read(CaptureTap& tap, uroce_capture_record& record, std::vector<uint8_t>& frame) {
    tap.Publish(Nanos(0));
    while (page_.consumed.value != page_.produced.value) {
      const uint64_t offset = page_.consumed.value % kRingBytes;
      memcpy(&record, ring_.data() + offset, std::min(sizeof(record), kRingBytes - offset));
      EXPECT_EQ(record.size % 64, 0u);
      EXPECT_LE(offset + record.size, kRingBytes) << "a record is contiguous";
      page_.consumed.value += record.size;
      if (record.captured_length == UROCE_NONE) continue;
      const uint8_t* bytes = ring_.data() + offset + sizeof(record);
      frame.assign(bytes, bytes + record.captured_length);
      return true;
    }
    return false;
  }

  uroce_capture_page page_{};
  alignas(64) std::array<uint8_t, kRingBytes> ring_{};
};

TEST_F(CaptureTapTest, FramesComeOutAsTheyWentIn) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, {.snap_bytes = 256});
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> sent(1 + random() % 300);
    for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random());
    const uroce_capture_note note{.reason = UROCE_REASON_RETRANSMITTED,
                                  .psn = static_cast<uint32_t>(i)};
    tap.Add(3, UROCE_CAPTURE_OUTBOUND, sent.data(), static_cast<uint32_t>(sent.size()), Nanos(i),
            note);
    uroce_capture_record record;
    std::vector<uint8_t> got;
    ASSERT_TRUE(Read(tap, record, got));
    EXPECT_EQ(record.wire_length, sent.size());
    EXPECT_EQ(record.interface_index, 3);
    EXPECT_EQ(record.direction, UROCE_CAPTURE_OUTBOUND);
    EXPECT_EQ(record.time_ns, static_cast<uint64_t>(i));
    EXPECT_EQ(memcmp(&record.note, &note, sizeof(note)), 0);
    sent.resize(std::min<size_t>(sent.size(), 256));
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(page_.lost[3].outbound, 0u);
}

TEST_F(CaptureTapTest, FullRingCountsLostAndKeepsWhatItHas) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, {.snap_bytes = 256});
  const std::vector<uint8_t> frame(100, 0xab);
  for (int i = 0; i < 20; ++i) {
    tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 100, Nanos(i), kNoNote);
  }
  EXPECT_EQ(page_.lost[0].inbound, 10u) << "10 records of 192 bytes fit the ring";
  EXPECT_EQ(page_.lost[0].outbound, 0u);
  uroce_capture_record record;
  std::vector<uint8_t> got;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(Read(tap, record, got));
    EXPECT_EQ(record.time_ns, i);
  }
  EXPECT_FALSE(Read(tap, record, got));
}

TEST_F(CaptureTapTest, ImpossibleConsumedIndexOnlyLosesPackets) {
  const std::vector<uint8_t> frame(100, 0xcd);
  for (const uint64_t nonsense : {uint64_t{kRingBytes}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    CaptureTap tap(&page_, ring_.data(), kRingBytes, {});
    for (int i = 0; i < 10; ++i) {
      tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 100, Nanos(0), kNoNote);
    }
    tap.Publish(Nanos(0));
    const uint64_t produced = page_.produced.value;
    page_.consumed.value = nonsense;
    tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 100, Nanos(0), kNoNote);
    tap.Publish(Nanos(0));
    EXPECT_EQ(page_.produced.value, produced);
    EXPECT_EQ(page_.lost[0].inbound, 1u);
    page_ = {};
  }
}

TEST_F(CaptureTapTest, OtherDevicesAreLeftOut) {
  TapConfig config;
  config.interfaces.fill(TapConfig::kNotCaptured);
  config.interfaces[1] = 1;
  CaptureTap tap(&page_, ring_.data(), kRingBytes, config);
  const std::vector<uint8_t> frame(60);
  tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0), kNoNote);
  tap.Publish(Nanos(0));
  EXPECT_EQ(page_.produced.value, 0u);
  tap.Add(1, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0), kNoNote);
  tap.Publish(Nanos(0));
  EXPECT_NE(page_.produced.value, 0u);
}

TEST_F(CaptureTapTest, ADeviceThatWasRemovedIsLeftOut) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, {});
  const std::vector<uint8_t> frame(60);
  tap.Forget(1);
  // The next device in its slot has another index.
  for (const uint32_t index : {1u, 1u + UROCE_MAX_DEVICES}) {
    tap.Add(index, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0), kNoNote);
  }
  tap.Publish(Nanos(0));
  EXPECT_EQ(page_.produced.value, 0u);
}

TEST_F(CaptureTapTest, OnlyFramesOfTheKindsAskedForAreTaken) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes,
                 {.only = UROCE_CAPTURE_DROPPED | UROCE_CAPTURE_MARKED});
  const std::vector<uint8_t> frame(60);
  const auto add = [&](const uroce_capture_note& note) {
    tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0), note);
    tap.Publish(Nanos(0));
    return page_.produced.value;
  };
  EXPECT_EQ(add(kNoNote), 0u);
  EXPECT_EQ(add({.reason = UROCE_REASON_RETRANSMITTED}), 0u);
  EXPECT_EQ(add({.reason = UROCE_REASON_BAD_ICRC}), 128u);
  EXPECT_EQ(add({.flags = UROCE_NOTE_MARKED}), 256u);
  EXPECT_EQ(page_.lost[0].inbound, 0u) << "a record that no tap wants is not lost";
}

// With several workers a tool takes frames up to what all have reached.
TEST_F(CaptureTapTest, PublishSaysHowFarItIsAlsoWithoutFrames) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, {});
  tap.Publish(Nanos(7));
  EXPECT_EQ(page_.reached.value, 7u);
  EXPECT_EQ(page_.produced.value, 0u);
  const uint8_t byte = 0;
  tap.Add(0, UROCE_CAPTURE_INBOUND, &byte, 1, Nanos(7), kNoNote);
  tap.Publish(Nanos(8));
  EXPECT_EQ(page_.reached.value, 8u);
  EXPECT_EQ(page_.produced.value, 128u);
}

TEST_F(CaptureTapTest, NothingIsSeenBeforePublish) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, {});
  const std::vector<uint8_t> frame(60);
  tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0), kNoNote);
  EXPECT_EQ(page_.produced.value, 0u);
}

TEST(PacketHistoryTest, TheNewestPacketsStayInTheirOrder) {
  PacketHistory ring(4);
  EXPECT_TRUE(ring.InOrder().empty());
  const std::vector<uint8_t> frame(60, 0xab);
  for (int i = 0; i < 10; ++i) {
    ring.Add(UROCE_CAPTURE_OUTBOUND, frame, Nanos(i), {.psn = static_cast<uint32_t>(i)});
  }
  const std::vector<HistoryPacket> packets = ring.InOrder();
  ASSERT_EQ(packets.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(packets[i].time_ns, 6 + i);
    EXPECT_EQ(packets[i].note.psn, 6 + i);
  }
}

TEST(PacketHistoryTest, LongPacketsAreCutAndKeepTheirLength) {
  PacketHistory ring(2);
  const std::vector<uint8_t> frame(4154, 0xcd);
  ring.Add(UROCE_CAPTURE_INBOUND, frame, Nanos(1), {});
  const HistoryPacket packet = ring.InOrder().front();
  EXPECT_EQ(packet.captured_bytes, kHistorySnapBytes);
  EXPECT_EQ(packet.wire_length_bytes, 4154u);
  EXPECT_EQ(packet.bytes.back(), 0xcd);
}

}  // namespace
}  // namespace uroce::datapath
