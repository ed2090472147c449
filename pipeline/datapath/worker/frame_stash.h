// SPDX-License-Identifier: Apache-2.0
// Empty frames that a worker has taken from its pool in advance.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "drivers/pending_icrc.h"
#include "pipeline/datapath/port/device_port.h"

namespace uroce::datapath {

/// Takes frames from a pool a burst at a time. One thread.
class FrameStash {
 public:
  explicit FrameStash(rte_mempool* pool) : pool_(pool) {}
  ~FrameStash() { rte_pktmbuf_free_bulk(frames_.data(), count_); }
  FrameStash(const FrameStash&) = delete;
  FrameStash& operator=(const FrameStash&) = delete;

  /// Returns an empty frame. Null: the pool is empty, which `counters` count.
  rte_mbuf* Take(DeviceCounters& counters) {
    if (count_ == 0 && !Fill(counters)) return nullptr;
    return frames_[--count_];
  }
  /// Copies a frame, to be sent or received once more. Null: no frame is free or large enough.
  rte_mbuf* Copy(const rte_mbuf& frame, DeviceCounters& counters) {
    rte_mbuf* const copy = Take(counters);
    if (copy == nullptr) return nullptr;
    if (frame.data_len > rte_pktmbuf_tailroom(copy)) {
      Return(copy);
      Count(counters.no_buffer);
      return nullptr;
    }
    std::memcpy(rte_pktmbuf_mtod(copy, uint8_t*), rte_pktmbuf_mtod(&frame, const uint8_t*),
                frame.data_len);
    copy->data_len = frame.data_len;
    copy->pkt_len = frame.data_len;
    pending_.Inherit(*copy, frame);
    return copy;
  }
  /// Takes back an unchanged frame that Take returned.
  void Return(rte_mbuf* frame) { frames_[count_++] = frame; }

 private:
  bool Fill(DeviceCounters& counters) {
    if (rte_pktmbuf_alloc_bulk(pool_, frames_.data(), kBurst) != 0) {
      Count(counters.no_buffer);
      return false;
    }
    count_ = kBurst;
    return true;
  }

  rte_mempool* const pool_;
  const drivers::PendingIcrc pending_;
  std::array<rte_mbuf*, kBurst> frames_{};
  uint32_t count_ = 0;
};

}  // namespace uroce::datapath
