// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/frame_link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "pipeline/base/counters.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {

FrameLink::FrameLink(uint32_t depth_frames, uint32_t slot_bytes)
    : inbound_(depth_frames, slot_bytes),
      outbound_(depth_frames, slot_bytes),
      wait_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

FrameLink::~FrameLink() { close(wait_fd_); }

bool FrameLink::Hand(std::span<const uint8_t> frame) {
  const bool put = inbound_.Put(frame) == PutResult::kPut;
  Count(put ? counters_.received : counters_.rx_discards);
  handed_ |= put;
  return put;
}

void FrameLink::Flush() {
  if (!handed_) return;
  handed_ = false;
  rings::FullFence();
  if (!asleep_.load(std::memory_order_relaxed)) return;
  asleep_.store(false, std::memory_order_relaxed);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wait_fd_, &one, sizeof(one));
}

void FrameLink::ClearWake() {
  uint64_t events = 0;
  [[maybe_unused]] const ssize_t got = read(wait_fd_, &events, sizeof(events));
}

bool FrameLink::PrepareSleep() {
  asleep_.store(true, std::memory_order_relaxed);
  rings::FullFence();
  return inbound_.empty();
}

bool FrameLink::Send(std::span<const uint8_t> frame) {
  if (outbound_.Put(frame) == PutResult::kPut) return true;
  Count(counters_.tx_discards);
  return false;
}

}  // namespace uroce::datapath
