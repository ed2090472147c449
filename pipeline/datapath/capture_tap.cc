// SPDX-License-Identifier: Apache-2.0
// The worker's end of a capture ring.
#include "pipeline/datapath/capture_tap.h"

#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pipeline/capture/note.h"

namespace uroce::datapath {
namespace {

constexpr uint64_t kHeaderBytes = sizeof(uroce_capture_record);
constexpr uint64_t kLine = UROCE_CAPTURE_ALIGNMENT;
static_assert(kHeaderBytes == kLine, "the frame starts at a line of its own");

constexpr uint64_t PadToLine(uint64_t bytes) { return (bytes + kLine - 1) & ~(kLine - 1); }

void StreamLine(uint8_t* line, const uint8_t* bytes) {
  for (uint64_t i = 0; i < kLine; i += 16) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(line + i), part);
  }
}

/// Writes past the cache: the ring is larger than it, and what the worker needs next stays in it.
void Stream(uint8_t* lines, const uint8_t* bytes, uint64_t length_bytes) {
  for (; length_bytes >= kLine; length_bytes -= kLine, lines += kLine, bytes += kLine) {
    StreamLine(lines, bytes);
  }
  if (length_bytes == 0) return;
  uint8_t last[kLine] = {};
  std::memcpy(last, bytes, length_bytes);
  StreamLine(lines, last);
}

}  // namespace

CaptureTap::CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes,
                       const TapConfig& config)
    : page_(page), ring_(ring), ring_bytes_(ring_bytes), config_(config) {}

void CaptureTap::Add(uint32_t device_index, uint16_t direction, const uint8_t* frame,
                     uint32_t length_bytes, Nanos time, const uroce_capture_note& note) {
  if (config_.device_index != UROCE_NONE && config_.device_index != device_index) return;
  if (config_.only != 0 && (capture::KindsOf(note) & config_.only) == 0) return;
  const uint32_t captured = std::min(length_bytes, config_.snap_bytes);
  const uint64_t size = PadToLine(kHeaderBytes + captured);
  uint8_t* const place = Reserve(size);
  if (place == nullptr) return CountLost(device_index, direction);
  const uroce_capture_record record{
      .size = static_cast<uint32_t>(size),
      .captured_length = captured,
      .wire_length = length_bytes,
      .interface_index = static_cast<uint16_t>(device_index),
      .direction = direction,
      .time_ns = static_cast<uint64_t>(time.count()),
      .note = note,
      .reserved = {},
  };
  StreamLine(place, reinterpret_cast<const uint8_t*>(&record));
  Stream(place + kHeaderBytes, frame, captured);
  produced_ += size;
}

void CaptureTap::Publish() {
  if (published_ == produced_) return;
  published_ = produced_;
  _mm_sfence();  // Streaming stores are not ordered by a release.
  std::atomic_ref(page_->produced.value).store(produced_, std::memory_order_release);
}

void CaptureTap::CountLost(uint32_t device_index, uint16_t direction) {
  const bool inbound = direction == UROCE_CAPTURE_INBOUND;
  uroce_capture_lost& mine = lost_[device_index];
  uroce_capture_lost& shared = page_->lost[device_index];
  const uint64_t count = inbound ? ++mine.inbound : ++mine.outbound;
  std::atomic_ref(inbound ? shared.inbound : shared.outbound)
      .store(count, std::memory_order_relaxed);
}

bool CaptureTap::HasRoom(uint64_t size) {
  // A tool that wrote nonsense makes more than the ring "used": it loses packets.
  const auto fits = [&] {
    const uint64_t used = produced_ - consumed_;
    return used <= ring_bytes_ && size <= ring_bytes_ - used;
  };
  if (fits()) return true;
  consumed_ = std::atomic_ref(page_->consumed.value).load(std::memory_order_acquire);
  return fits();
}

uint8_t* CaptureTap::Reserve(uint64_t size) {
  const uint64_t offset = produced_ & (ring_bytes_ - 1);
  const uint64_t to_end = ring_bytes_ - offset;
  const uint64_t filler = size <= to_end ? 0 : to_end;
  if (!HasRoom(filler + size)) return nullptr;
  if (filler == 0) return ring_ + offset;
  const uint32_t header[2] = {static_cast<uint32_t>(filler), UROCE_NONE};
  std::memcpy(ring_ + offset, header, sizeof(header));
  produced_ += filler;
  return ring_;
}

}  // namespace uroce::datapath
