// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/rings.h"

#include <gtest/gtest.h>
#include <array>
#include <cstring>
#include <vector>

namespace uroce::tools {
namespace {

// ---- One ring ----
// Its writer is another process: every word it may write wrongly is tried here.

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
    record.size = (64 + captured_bytes + 63) & ~63u;
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
  capture::CapturedFrame frame_;
};

TEST_F(CaptureRingTest, EmptyRingGivesNothing) {
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kEmpty);
}

TEST_F(CaptureRingTest, RecordArrivesWholeAndIsConsumedWhenReleased) {
  uroce_capture_record record = Record(61);
  record.note.reason = UROCE_REASON_GHOST;
  record.note.qpn = 0x123;
  Write(0, record, 0xab);
  Publish(128);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  EXPECT_EQ(std::vector<uint8_t>(frame_.bytes.begin(), frame_.bytes.end()),
            std::vector<uint8_t>(61, 0xab));
  EXPECT_EQ(frame_.time_ns, 77u);
  EXPECT_EQ(frame_.interface_index, 1u);
  EXPECT_EQ(frame_.direction, UROCE_CAPTURE_OUTBOUND);
  EXPECT_EQ(frame_.note.reason, UROCE_REASON_GHOST);
  EXPECT_EQ(frame_.note.qpn, 0x123u);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kEmpty);
  EXPECT_EQ(page_.consumed.value, 0u) << "the bytes still lie in the ring";
  EXPECT_EQ(reader_.held_bytes(), 128u);
  reader_.Release();
  EXPECT_EQ(page_.consumed.value, 128u);
  EXPECT_EQ(reader_.held_bytes(), 0u);
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
  Write(0, Record(3904));  // 3968 bytes: 128 are left.
  Publish(3968);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  reader_.Release();
  const uint32_t filler[2] = {128, UROCE_NONE};
  memcpy(&ring_[3968], filler, sizeof(filler));
  Write(4096, Record(80), 0xcd);
  Publish(4096 + 192);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  EXPECT_EQ(std::vector<uint8_t>(frame_.bytes.begin(), frame_.bytes.end()),
            std::vector<uint8_t>(80, 0xcd));
  reader_.Release();
  EXPECT_EQ(page_.consumed.value, 4096u + 192u);
}

TEST_F(CaptureRingTest, MorePublishedThanTheRingHoldsIsCorrupt) {
  Write(0, Record(8));
  Publish(kRingBytes + 64);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, WhatIsHeldMustNotBeWrittenOver) {
  Write(0, Record(8));
  Publish(128);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  Publish(kRingBytes + 64);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, ProducedRunningBackIsCorrupt) {
  Write(0, Record(8));
  Publish(128);
  ASSERT_EQ(reader_.Take(frame_), CaptureTakeResult::kOk);
  reader_.Release();
  Publish(0);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, FillerBeyondWhatIsPublishedIsCorrupt) {
  const uint32_t filler[2] = {64, UROCE_NONE};
  memcpy(ring_.data(), filler, sizeof(filler));
  Publish(64);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingTest, LossesAreThoseOfOneInterfaceAndDirection) {
  page_.lost[1] = {.inbound = 3, .outbound = 4};
  EXPECT_EQ(reader_.lost_frames(0).inbound, 0u);
  EXPECT_EQ(reader_.lost_frames(1).inbound, 3u);
  EXPECT_EQ(reader_.lost_frames(1).outbound, 4u);
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
  Publish(128);
  EXPECT_EQ(reader_.Take(frame_), CaptureTakeResult::kCorrupt);
  EXPECT_EQ(page_.consumed.value, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, CaptureRingBadRecordTest,
    testing::Values(BadRecord{"SizeZero", [](auto& r) { r.size = 0; }},
                    BadRecord{"SizeBelowHeader", [](auto& r) { r.size = 63; }},
                    BadRecord{"SizeUnaligned", [](auto& r) { r.size = 96; }},
                    BadRecord{"SizeBeyondPublished", [](auto& r) { r.size = 192; }},
                    BadRecord{"SizeHuge", [](auto& r) { r.size = 0xffffffc0; }},
                    BadRecord{"FrameBeyondRecord",
                              [](auto& r) { r.captured_length = r.wire_length = 65; }},
                    BadRecord{"FrameLongerThanOnTheWire", [](auto& r) { r.wire_length = 7; }},
                    BadRecord{"UnknownDirection", [](auto& r) { r.direction = 3; }},
                    BadRecord{"UnknownInterface", [](auto& r) { r.interface_index = 2; }}),
    [](const auto& test) { return test.param.name; });

// ---- All rings ----

constexpr uint64_t kRecordBytes = 64;
constexpr uint64_t kNow = 1'000'000'000;

/// Two workers' rings, and the daemon's side of them. A frame is known by its time alone.
class CaptureRingsTest : public testing::Test {
 protected:
  struct Part {
    uroce_capture_page page{};
    std::vector<uint8_t> ring = std::vector<uint8_t>(kRingBytes);
  };

  void Publish(size_t worker, uint64_t time_ns) {
    Part& part = parts_[worker];
    const uroce_capture_record record{
        .size = kRecordBytes, .direction = UROCE_CAPTURE_INBOUND, .time_ns = time_ns};
    memcpy(&part.ring[part.page.produced.value % kRingBytes], &record, sizeof(record));
    part.page.produced.value += kRecordBytes;
  }
  void Reach(uint64_t first_ns, uint64_t second_ns) {
    parts_[0].page.reached.value = first_ns;
    parts_[1].page.reached.value = second_ns;
    rings_.LookAgain(kNow);
  }
  /// Times of all frames that can be taken.
  std::vector<uint64_t> TakeAll() {
    std::vector<uint64_t> times;
    capture::CapturedFrame frame;
    while (rings_.Take(frame) == CaptureTakeResult::kOk) times.push_back(frame.time_ns);
    return times;
  }
  CaptureRing RingOf(size_t worker) {
    return {&parts_[worker].page, parts_[worker].ring.data(), kRingBytes, 2};
  }

  std::array<Part, 2> parts_;
  CaptureRings rings_{{RingOf(0), RingOf(1)}};
};

using Times = std::vector<uint64_t>;

TEST_F(CaptureRingsTest, FramesComeInOrderOfTime) {
  for (const uint64_t time : {10, 30, 50}) Publish(0, time);
  for (const uint64_t time : {20, 40, 60}) Publish(1, time);
  Reach(kNow, kNow);
  EXPECT_EQ(TakeAll(), (Times{10, 20, 30, 40, 50, 60}));
}

TEST_F(CaptureRingsTest, AFrameWaitsUntilNoWorkerCanHaveAnEarlierOne) {
  Publish(0, kNow - 10);
  Reach(kNow, kNow - 10);
  EXPECT_EQ(TakeAll(), Times{}) << "the other may have more of the same time";
  Publish(1, kNow - 20);
  Reach(kNow, kNow);
  EXPECT_EQ(TakeAll(), (Times{kNow - 20, kNow - 10}));
}

TEST_F(CaptureRingsTest, AWorkerThatSleepsHoldsUpNoFrameForLong) {
  Publish(0, kNow - CaptureRings::kPatienceNs - 1);
  Publish(0, kNow - CaptureRings::kPatienceNs);
  Reach(kNow, 5);
  EXPECT_EQ(TakeAll(), Times{kNow - CaptureRings::kPatienceNs - 1});
}

TEST_F(CaptureRingsTest, TheRestComesWhenTheCaptureHasEnded) {
  Publish(0, kNow + 10);
  Publish(1, kNow + 5);
  Reach(kNow, kNow);
  EXPECT_EQ(TakeAll(), Times{});
  rings_.LookAtRest();
  EXPECT_EQ(TakeAll(), (Times{kNow + 5, kNow + 10}));
}

TEST_F(CaptureRingsTest, OneRingWaitsForNoOther) {
  Publish(0, kNow + 10);
  CaptureRings one({RingOf(0)});
  capture::CapturedFrame frame;
  ASSERT_EQ(one.Take(frame), CaptureTakeResult::kOk);
  EXPECT_EQ(frame.time_ns, kNow + 10);
}

TEST_F(CaptureRingsTest, AFrameThatWaitsIsNotReleased) {
  Publish(0, 10);
  Publish(1, kNow);
  Reach(kNow, kNow);
  EXPECT_EQ(TakeAll(), Times{10});
  EXPECT_EQ(rings_.held_bytes(), kRecordBytes);
  rings_.Release();
  EXPECT_EQ(rings_.held_bytes(), 0u);
  EXPECT_EQ(parts_[0].page.consumed.value, kRecordBytes);
  EXPECT_EQ(parts_[1].page.consumed.value, 0u) << "its bytes still lie in the ring";
}

TEST_F(CaptureRingsTest, ACorruptRingEndsAll) {
  Publish(0, 10);
  parts_[1].page.produced.value = 2 * kRingBytes;
  Reach(kNow, kNow);
  capture::CapturedFrame frame;
  EXPECT_EQ(rings_.Take(frame), CaptureTakeResult::kCorrupt);
}

TEST_F(CaptureRingsTest, LossesAreSummed) {
  parts_[0].page.lost[1] = {.inbound = 3, .outbound = 4};
  parts_[1].page.lost[1] = {.inbound = 30, .outbound = 40};
  EXPECT_EQ(rings_.lost_frames(1).inbound, 33u);
  EXPECT_EQ(rings_.lost_frames(1).outbound, 44u);
}

}  // namespace
}  // namespace uroce::tools
