// SPDX-License-Identifier: Apache-2.0
// The ring's writer is another process: every word it may write wrongly is tried here.
#include "tools/capture_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace uroce::tools {
namespace {

constexpr uint64_t kRingBytes = 4096;

/// A page and a ring, and the daemon's side of them.
class CaptureRingTest : public testing::Test {
 protected:
  /// Writes a record at byte `position` (free running) without publishing it.
  void Write(uint64_t position, const uroce_capture_record& record, uint8_t fill = 0) {
    uint8_t* place = &ring_[position % kRingBytes];
    memcpy(place, &record, sizeof(record));
    if (record.captured_length < kRingBytes) {
      memset(place + sizeof(record), fill, record.captured_length);
    }
  }
  void Publish(uint64_t produced) { page_.produced.value = produced; }
  static uroce_capture_record Record(uint32_t captured_bytes) {
    uroce_capture_record record{};
    record.size = (24 + captured_bytes + 7) & ~7u;
    record.captured_length = captured_bytes;
    record.wire_length = captured_bytes;
    record.interface_index = 1;
    record.direction = UROCE_CAPTURE_OUTBOUND;
    record.time_ns = 77;
    return record;
  }

  uroce_capture_page page_{};
  std::vector<uint8_t> ring_ = std::vector<uint8_t>(kRingBytes);
  CaptureRing reader_{&page_, ring_.data(), kRingBytes, 2};
  CapturedFrame frame_;
};

TEST_F(CaptureRingTest, EmptyRingGivesNothing) {
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kEmpty);
}

TEST_F(CaptureRingTest, RecordArrivesWholeAndIsConsumed) {
  Write(0, Record(61), 0xab);
  Publish(88);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  EXPECT_EQ(frame_.bytes, std::vector<uint8_t>(61, 0xab));
  EXPECT_EQ(frame_.time_ns, 77u);
  EXPECT_EQ(frame_.interface_index, 1u);
  EXPECT_EQ(frame_.direction, UROCE_CAPTURE_OUTBOUND);
  EXPECT_EQ(page_.consumed.value, 88u);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kEmpty);
}

TEST_F(CaptureRingTest, TruncatedFrameKeepsItsWireLength) {
  uroce_capture_record record = Record(64);
  record.wire_length = 9000;
  Write(0, record);
  Publish(record.size);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  EXPECT_EQ(frame_.bytes.size(), 64u);
  EXPECT_EQ(frame_.wire_length_bytes, 9000u);
}

TEST_F(CaptureRingTest, FillerLeadsToTheRingsStart) {
  Write(0, Record(4056));  // 4080 bytes: 16 are left.
  Publish(4080);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  const uint32_t filler[2] = {16, UROCE_NONE};
  memcpy(&ring_[4080], filler, sizeof(filler));
  Write(4096, Record(8), 0xcd);
  Publish(4096 + 32);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  EXPECT_EQ(frame_.bytes, std::vector<uint8_t>(8, 0xcd));
  EXPECT_EQ(page_.consumed.value, 4096u + 32u);
}

TEST_F(CaptureRingTest, MorePublishedThanTheRingHoldsIsCorrupt) {
  Write(0, Record(8));
  Publish(kRingBytes + 8);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, ProducedRunningBackIsCorrupt) {
  Write(0, Record(8));
  Publish(32);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  Publish(0);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, FillerBeyondWhatIsPublishedIsCorrupt) {
  const uint32_t filler[2] = {16, UROCE_NONE};
  memcpy(ring_.data(), filler, sizeof(filler));
  Publish(16);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

struct BadRecord {
  const char* name;
  void (*spoil)(uroce_capture_record&);
};

class CaptureRingBadRecordTest : public CaptureRingTest,
                                 public testing::WithParamInterface<BadRecord> {};

TEST_P(CaptureRingBadRecordTest, IsCorruptAndNotConsumed) {
  uroce_capture_record record = Record(8);
  GetParam().spoil(record);
  memcpy(ring_.data(), &record, sizeof(record));
  Publish(32);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
  EXPECT_EQ(page_.consumed.value, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, CaptureRingBadRecordTest,
    testing::Values(BadRecord{"SizeZero", [](auto& r) { r.size = 0; }},
                    BadRecord{"SizeBelowHeader", [](auto& r) { r.size = 16; }},
                    BadRecord{"SizeUnaligned", [](auto& r) { r.size = 31; }},
                    BadRecord{"SizeBeyondPublished", [](auto& r) { r.size = 40; }},
                    BadRecord{"SizeHuge", [](auto& r) { r.size = 0xfffffff8; }},
                    BadRecord{"FrameBeyondRecord",
                              [](auto& r) { r.captured_length = r.wire_length = 9; }},
                    BadRecord{"FrameLongerThanOnTheWire", [](auto& r) { r.wire_length = 7; }},
                    BadRecord{"UnknownInterface", [](auto& r) { r.interface_index = 2; }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace uroce::tools
