// SPDX-License-Identifier: Apache-2.0
#include "tools/capture_ring.h"

#include <atomic>
#include <cstring>

namespace uroce::tools {
namespace {

// A filler at the very end of the ring may be as short as its first two words.
constexpr uint64_t kFillerBytes = 8;
constexpr uint64_t kHeaderBytes = sizeof(uroce_capture_record);
static_assert(kHeaderBytes == 24);

bool HeaderIsSane(const uroce_capture_record& header, uint64_t available_bytes,
                  uint32_t interface_count) {
  return header.size % 8 == 0 && header.size >= kHeaderBytes && header.size <= available_bytes &&
         header.captured_length <= header.size - kHeaderBytes &&
         header.captured_length <= header.wire_length && header.interface_index < interface_count;
}

}  // namespace

CaptureRing::CaptureRing(uroce_capture_page* page, const uint8_t* ring, uint64_t ring_bytes,
                         uint32_t interface_count)
    : page_(page), ring_(ring), ring_bytes_(ring_bytes), interface_count_(interface_count) {}

CaptureTakeResult CaptureRing::Take(CapturedFrame& frame) {
  const uint64_t produced = std::atomic_ref(page_->produced.value).load(std::memory_order_acquire);
  while (true) {
    const uint64_t published = produced - consumed_;
    if (published == 0) return CaptureTakeResult::kEmpty;
    if (published > ring_bytes_ || published % 8 != 0) return CaptureTakeResult::kCorrupt;
    const uint64_t offset = consumed_ & (ring_bytes_ - 1);
    const uint64_t to_end = ring_bytes_ - offset;
    uroce_capture_record header{};
    memcpy(&header, ring_ + offset, to_end < kHeaderBytes ? kFillerBytes : kHeaderBytes);
    if (header.captured_length == UROCE_NONE) {
      if (to_end > published) return CaptureTakeResult::kCorrupt;
      Consume(to_end);
      continue;
    }
    const uint64_t available = to_end < published ? to_end : published;
    if (!HeaderIsSane(header, available, interface_count_)) return CaptureTakeResult::kCorrupt;
    frame.time_ns = header.time_ns;
    frame.interface_index = header.interface_index;
    frame.direction = header.direction;
    frame.wire_length_bytes = header.wire_length;
    const uint8_t* bytes = ring_ + offset + kHeaderBytes;
    frame.bytes.assign(bytes, bytes + header.captured_length);
    Consume(header.size);
    return CaptureTakeResult::kOk;
  }
}

uint64_t CaptureRing::lost_frames() const {
  return std::atomic_ref(page_->lost.value).load(std::memory_order_relaxed);
}

void CaptureRing::Consume(uint64_t bytes) {
  consumed_ += bytes;
  std::atomic_ref(page_->consumed.value).store(consumed_, std::memory_order_release);
}

}  // namespace uroce::tools
