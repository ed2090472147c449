// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/rings.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace uroce::tools {
namespace {

constexpr uint64_t kRingBytes = 4096;
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

TEST_F(CaptureRingsTest, OneRingWaitsForNobody) {
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
