// SPDX-License-Identifier: Apache-2.0
// A frame on its way through the fabric, and what the fabric asks of whoever it carries frames for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// An Ethernet frame without its FCS. Whoever holds the value owns what it stands for.
struct Frame {
  uint8_t* bytes = nullptr;
  uint32_t length_bytes = 0;
  void* owner =
      nullptr;  ///< What the fabric's user knows it by: an mbuf, a buffer of a simulation.
  std::span<uint8_t> span() const { return {bytes, length_bytes}; }
};

/// The fabric's user. Called within calls of the fabric alone.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  /// `frame`, which is the callee's from now on, has reached `host` at `arrival`. The callee does
  /// not call the fabric.
  virtual void Deliver(uint32_t host, const Frame& frame, Nanos arrival) = 0;
  /// Another of the same bytes, for a frame that goes to several hosts; nothing: no memory.
  virtual std::optional<Frame> Copy(const Frame& frame) = 0;
  /// `frame` is dropped.
  virtual void Free(const Frame& frame) = 0;
};

}  // namespace uroce::fabric
