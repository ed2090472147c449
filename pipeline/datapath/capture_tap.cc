// SPDX-License-Identifier: Apache-2.0
// The worker's end of a capture ring.
#include "pipeline/datapath/capture_tap.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace uroce::datapath {
namespace {

// Of a record's own fields; a filler has only the first two, so it fits wherever 8 bytes do.
constexpr uint64_t kHeaderBytes = sizeof(uroce_capture_record);
constexpr uint64_t kFillerBytes = 2 * sizeof(uint32_t);

constexpr uint64_t PadTo8(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

}  // namespace

CaptureTap::CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes,
                       uint32_t snap_bytes, uint32_t device_index)
    : page_(page),
      ring_(ring),
      ring_bytes_(ring_bytes),
      snap_bytes_(snap_bytes),
      device_index_(device_index) {}

void CaptureTap::Add(uint32_t device_index, uint16_t direction, const uint8_t* frame,
                     uint32_t length_bytes, Nanos time) {
  if (device_index_ != UROCE_NONE && device_index_ != device_index) return;
  const uint32_t captured = std::min(length_bytes, snap_bytes_);
  const uint64_t size = PadTo8(kHeaderBytes + captured);
  uint8_t* const place = Reserve(size);
  if (place == nullptr) {
    std::atomic_ref(page_->lost.value).store(++lost_, std::memory_order_relaxed);
    return;
  }
  const uroce_capture_record record{
      .size = static_cast<uint32_t>(size),
      .captured_length = captured,
      .wire_length = length_bytes,
      .interface_index = static_cast<uint16_t>(device_index),
      .direction = direction,
      .time_ns = static_cast<uint64_t>(time.count()),
  };
  std::memcpy(place, &record, kHeaderBytes);
  std::memcpy(place + kHeaderBytes, frame, captured);
  produced_ += size;
  std::atomic_ref(page_->produced.value).store(produced_, std::memory_order_release);
}

uint8_t* CaptureTap::Reserve(uint64_t size) {
  const uint64_t consumed = std::atomic_ref(page_->consumed.value).load(std::memory_order_acquire);
  const uint64_t used = produced_ - consumed;
  if (used > ring_bytes_) return nullptr;  // The tool wrote nonsense: it loses packets.
  const uint64_t offset = produced_ & (ring_bytes_ - 1);
  const uint64_t to_end = ring_bytes_ - offset;
  const uint64_t filler = size <= to_end ? 0 : to_end;
  if (used + filler + size > ring_bytes_) return nullptr;
  if (filler == 0) return ring_ + offset;
  const uint32_t header[2] = {static_cast<uint32_t>(filler), UROCE_NONE};
  std::memcpy(ring_ + offset, header, kFillerBytes);
  produced_ += filler;
  return ring_;
}

}  // namespace uroce::datapath
