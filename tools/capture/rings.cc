// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/rings.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace uroce::tools {
namespace {

constexpr uint64_t kAlignment = UROCE_CAPTURE_ALIGNMENT;
constexpr uint64_t kHeaderBytes = sizeof(uroce_capture_record);
static_assert(kHeaderBytes == kAlignment);

bool HeaderIsSane(const uroce_capture_record& header, uint64_t available_bytes,
                  uint32_t interface_count) {
  return header.size % kAlignment == 0 && header.size >= kHeaderBytes &&
         header.size <= available_bytes && header.captured_length <= header.size - kHeaderBytes &&
         header.captured_length <= header.wire_length && header.interface_index < interface_count &&
         header.interface_index < UROCE_MAX_DEVICES &&
         (header.direction == UROCE_CAPTURE_INBOUND || header.direction == UROCE_CAPTURE_OUTBOUND);
}

}  // namespace

CaptureRing::CaptureRing(uroce_capture_page* page, const uint8_t* ring, uint64_t ring_bytes,
                         uint32_t interface_count)
    : page_(page), ring_(ring), ring_bytes_(ring_bytes), interface_count_(interface_count) {}

CaptureTakeResult CaptureRing::Take(capture::CapturedFrame& frame) {
  const CaptureTakeResult result = Look(frame);
  if (result == CaptureTakeResult::kOk) Pass();
  return result;
}

CaptureTakeResult CaptureRing::Look(capture::CapturedFrame& frame) {
  const uint64_t produced = std::atomic_ref(page_->produced.value).load(std::memory_order_acquire);
  if (produced - released_ > ring_bytes_) return CaptureTakeResult::kCorrupt;
  while (true) {
    const uint64_t published = produced - taken_;
    if (published == 0) return CaptureTakeResult::kEmpty;
    if (published > ring_bytes_ || published % kAlignment != 0) return CaptureTakeResult::kCorrupt;
    const uint64_t offset = taken_ & (ring_bytes_ - 1);
    const uint64_t to_end = ring_bytes_ - offset;
    uroce_capture_record header{};
    memcpy(&header, ring_ + offset, sizeof(header));
    if (header.captured_length == UROCE_NONE) {
      if (to_end > published) return CaptureTakeResult::kCorrupt;
      taken_ += to_end;
      continue;
    }
    const uint64_t available = to_end < published ? to_end : published;
    if (!HeaderIsSane(header, available, interface_count_)) return CaptureTakeResult::kCorrupt;
    frame.time_ns = header.time_ns;
    frame.interface_index = header.interface_index;
    frame.direction = header.direction;
    frame.wire_length_bytes = header.wire_length;
    frame.note = header.note;
    frame.bytes = {ring_ + offset + kHeaderBytes, header.captured_length};
    looked_bytes_ = header.size;
    return CaptureTakeResult::kOk;
  }
}

void CaptureRing::Release() {
  if (released_ == taken_) return;
  released_ = taken_;
  std::atomic_ref(page_->consumed.value).store(released_, std::memory_order_release);
}

uint64_t CaptureRing::reached_ns() const {
  return std::atomic_ref(page_->reached.value).load(std::memory_order_acquire);
}

uroce_capture_lost CaptureRing::lost_frames(uint32_t interface_index) const {
  uroce_capture_lost& lost = page_->lost[interface_index % UROCE_MAX_DEVICES];
  return {std::atomic_ref(lost.inbound).load(std::memory_order_relaxed),
          std::atomic_ref(lost.outbound).load(std::memory_order_relaxed)};
}

CaptureRings::CaptureRings(const std::vector<CaptureRing>& rings) {
  for (const CaptureRing& ring : rings) sources_.push_back({.ring = ring});
  LookAgain(0);
}

void CaptureRings::LookAgain(uint64_t now_ns) {
  end_ns_ = kNoEnd;
  if (sources_.size() == 1) return;
  const uint64_t patient_ns = now_ns - std::min(now_ns, kPatienceNs);
  for (const Source& source : sources_) {
    end_ns_ = std::min(end_ns_, std::max(source.ring.reached_ns(), patient_ns));
  }
}

CaptureTakeResult CaptureRings::Look(Source& source) const {
  if (source.has_next) return CaptureTakeResult::kOk;
  const CaptureTakeResult result = source.ring.Look(source.next);
  source.has_next = result == CaptureTakeResult::kOk;
  return result;
}

CaptureTakeResult CaptureRings::Take(capture::CapturedFrame& frame) {
  if (sources_.size() == 1) return sources_.front().ring.Take(frame);
  Source* earliest = nullptr;
  for (Source& source : sources_) {
    const CaptureTakeResult result = Look(source);
    if (result == CaptureTakeResult::kCorrupt) return result;
    if (result == CaptureTakeResult::kEmpty || source.next.time_ns >= end_ns_) continue;
    if (earliest == nullptr || source.next.time_ns < earliest->next.time_ns) earliest = &source;
  }
  if (earliest == nullptr) return CaptureTakeResult::kEmpty;
  frame = earliest->next;
  earliest->ring.Pass();
  earliest->has_next = false;
  return CaptureTakeResult::kOk;
}

void CaptureRings::Release() {
  for (Source& source : sources_) source.ring.Release();
}

uint64_t CaptureRings::held_bytes() const {
  uint64_t bytes = 0;
  for (const Source& source : sources_) bytes += source.ring.held_bytes();
  return bytes;
}

uroce_capture_lost CaptureRings::lost_frames(uint32_t interface_index) const {
  uroce_capture_lost sum{};
  for (const Source& source : sources_) {
    const uroce_capture_lost lost = source.ring.lost_frames(interface_index);
    sum.inbound += lost.inbound;
    sum.outbound += lost.outbound;
  }
  return sum;
}

}  // namespace uroce::tools
