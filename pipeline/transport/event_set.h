// SPDX-License-Identifier: Apache-2.0
// The asynchronous events of a queue pair that the shell has not polled yet.
#pragma once

#include <bit>
#include <cstdint>

#include "pipeline/transport/queue_pair_types.h"

namespace uroce::transport {

/// A set of events: an event that is raised again before it was polled is reported once.
class EventSet {
 public:
  void Raise(QpEvent event) { bits_ |= Bit(event); }
  void Clear() { bits_ = 0; }
  [[nodiscard]] bool Poll(QpEvent& event) {
    if (bits_ == 0) return false;
    event = static_cast<QpEvent>(std::countr_zero(bits_));
    bits_ &= ~Bit(event);
    return true;
  }

 private:
  static constexpr uint32_t Bit(QpEvent event) { return 1u << static_cast<uint8_t>(event); }
  uint32_t bits_ = 0;
};

}  // namespace uroce::transport
