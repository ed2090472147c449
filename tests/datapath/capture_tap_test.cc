// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/capture_tap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace uroce::datapath {
namespace {

constexpr uint64_t kRingBytes = 1024;

class CaptureTapTest : public testing::Test {
 protected:
  /// What a tool does: the next record, fillers skipped; false when there is none.
  bool Read(uroce_capture_record& record, std::vector<uint8_t>& frame) {
    while (page_.consumed.value != page_.produced.value) {
      const uint64_t offset = page_.consumed.value % kRingBytes;
      memcpy(&record, ring_.data() + offset, std::min(sizeof(record), kRingBytes - offset));
      EXPECT_EQ(record.size % 8, 0u);
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
  std::vector<uint8_t> ring_ = std::vector<uint8_t>(kRingBytes);
};

TEST_F(CaptureTapTest, FramesComeOutAsTheyWentIn) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, 256, UROCE_NONE);
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> sent(1 + random() % 300);
    for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random());
    tap.Add(3, UROCE_CAPTURE_OUTBOUND, sent.data(), static_cast<uint32_t>(sent.size()), Nanos(i));
    uroce_capture_record record;
    std::vector<uint8_t> got;
    ASSERT_TRUE(Read(record, got));
    EXPECT_EQ(record.wire_length, sent.size());
    EXPECT_EQ(record.interface_index, 3);
    EXPECT_EQ(record.direction, UROCE_CAPTURE_OUTBOUND);
    EXPECT_EQ(record.time_ns, static_cast<uint64_t>(i));
    sent.resize(std::min<size_t>(sent.size(), 256));
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(page_.lost.value, 0u);
}

TEST_F(CaptureTapTest, FullRingCountsLostAndKeepsWhatItHas) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, 256, UROCE_NONE);
  const std::vector<uint8_t> frame(100, 0xab);
  for (int i = 0; i < 20; ++i) tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 100, Nanos(i));
  EXPECT_EQ(page_.lost.value, 12u) << "8 records of 128 bytes fill the ring";
  uroce_capture_record record;
  std::vector<uint8_t> got;
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(Read(record, got));
    EXPECT_EQ(record.time_ns, i);
  }
  EXPECT_FALSE(Read(record, got));
}

TEST_F(CaptureTapTest, ImpossibleConsumedIndexOnlyLosesPackets) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, 256, UROCE_NONE);
  const std::vector<uint8_t> frame(100, 0xcd);
  for (const uint64_t nonsense : {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    page_.consumed.value = nonsense;
    const uint64_t produced = page_.produced.value;
    tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 100, Nanos(0));
    EXPECT_EQ(page_.produced.value, produced);
  }
  EXPECT_EQ(page_.lost.value, 3u);
}

TEST_F(CaptureTapTest, OtherDevicesAreLeftOut) {
  CaptureTap tap(&page_, ring_.data(), kRingBytes, 256, 1);
  const std::vector<uint8_t> frame(60);
  tap.Add(0, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0));
  EXPECT_EQ(page_.produced.value, 0u);
  tap.Add(1, UROCE_CAPTURE_INBOUND, frame.data(), 60, Nanos(0));
  EXPECT_NE(page_.produced.value, 0u);
}

}  // namespace
}  // namespace uroce::datapath
