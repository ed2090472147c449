// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/rings.h"

#include <algorithm>

namespace uroce::tools {

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
