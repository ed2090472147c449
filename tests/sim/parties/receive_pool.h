// SPDX-License-Identifier: Apache-2.0
// A receive queue of a simulated program, used by one queue pair or shared by several of a host.
// Its buffers come late on purpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/transport/work.h"
#include "tests/sim/random.h"

namespace uroce::sim {

class ReceivePool {
 public:
  static constexpr uint32_t kBytes = 24'000;
  static constexpr uint32_t kMostWaiting = 64;

  /// `most_pause_ns`: the longest time between refills; 0: there is always one more buffer.
  ReceivePool(uint32_t most_pause_ns, uint64_t seed) : pause_(most_pause_ns), random_(seed) {}

  /// Posts some buffers, if it is time.
  void Refill(Nanos now) {
    if (pause_ == 0 || now < next_) return;
    for (uint32_t i = 1 + random_.Below(8); i != 0 && waiting() < kMostWaiting; --i) Post();
    next_ = now + Nanos(1 + random_.Below(pause_));
  }
  Nanos next_refill() const { return pause_ == 0 ? kNever : next_; }
  std::optional<transport::ReceiveWork> Take() {
    if (pause_ == 0 && posted_.empty()) Post();
    if (posted_.empty()) return std::nullopt;
    const transport::ReceiveWork work = posted_.front();
    posted_.pop_front();
    GiveBytes(buffers_[work.slot]);
    return work;
  }
  /// The slot of the work that is taken next.
  uint32_t next_slot() const {
    return posted_.empty() ? static_cast<uint32_t>(buffers_.size()) : posted_.front().slot;
  }
  uint32_t waiting() const { return static_cast<uint32_t>(posted_.size()); }
  std::vector<uint8_t>& Buffer(uint32_t slot) { return buffers_[slot]; }
  /// Frees the buffer of `slot`, whose completion has been checked.
  void Release(uint32_t slot) { idle_.push_back(std::move(buffers_[slot])); }

 private:
  void Post() {
    const auto slot = static_cast<uint32_t>(buffers_.size());
    buffers_.emplace_back();
    posted_.push_back({.wr_id = slot, .slot = slot, .length_bytes = kBytes, .queue = 7});
  }

  /// Fills a buffer that is in use with bytes, those of another message if there was one.
  void GiveBytes(std::vector<uint8_t>& buffer) {
    if (idle_.empty()) return buffer.resize(kBytes);
    buffer = std::move(idle_.back());
    idle_.pop_back();
  }

  uint32_t pause_;
  Random random_;
  Nanos next_{0};
  std::deque<transport::ReceiveWork> posted_;
  std::vector<std::vector<uint8_t>> buffers_;  ///< By slot.
  std::vector<std::vector<uint8_t>> idle_;
};

}  // namespace uroce::sim
