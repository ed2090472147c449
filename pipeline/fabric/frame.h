// SPDX-License-Identifier: Apache-2.0
// A frame in the fabric, and the interface that the fabric's user implements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// An Ethernet frame without its FCS. The holder of the value owns the memory of the frame.
struct Frame {
  uint8_t* bytes = nullptr;
  uint32_t length_bytes = 0;
  void* owner =
      nullptr;  ///< The user's object that holds the bytes: an mbuf, or a buffer of a simulation.
  std::span<uint8_t> span() const { return {bytes, length_bytes}; }
};

/// The fabric's user. The fabric calls it only while the user calls the fabric.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  /// `frame` has reached `host` at `arrival`. The callee owns it from now on, and does not call the
  /// fabric.
  virtual void Deliver(uint32_t host, const Frame& frame, Nanos arrival) = 0;
  /// Returns a copy of a frame that goes to several hosts; nullopt when there is no memory.
  virtual std::optional<Frame> Copy(const Frame& frame) = 0;
  /// `frame` is dropped: the callee frees its memory.
  virtual void Free(const Frame& frame) = 0;
};

}  // namespace uroce::fabric
