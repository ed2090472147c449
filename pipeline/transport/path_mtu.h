// SPDX-License-Identifier: Apache-2.0
// The path MTU, and how it splits a message into packets.
#pragma once

#include <bit>
#include <cstdint>

namespace uroce::transport {

/// The longest message that the headers can name (docs/protocol/transport.md, section 12).
inline constexpr uint32_t kMaxMessageBytes = 1u << 31;

/// Payload bytes of a full packet: a power of two, 256 .. 4096 on the wire.
class PathMtu {
 public:
  constexpr PathMtu() = default;
  constexpr explicit PathMtu(uint32_t size_bytes)
      : shift_(static_cast<uint8_t>(std::bit_width(size_bytes | 1) - 1)), bytes_(1u << shift_) {}
  constexpr uint32_t bytes() const { return bytes_; }

  /// The number of packets of a message: ceil(length_bytes / bytes()), 1 for an empty message.
  /// Range: length_bytes <= 2^31.
  constexpr uint32_t PacketsOf(uint32_t length_bytes) const {
    return length_bytes <= bytes_ ? 1 : (length_bytes + bytes_ - 1) >> shift_;
  }
  /// Where the payload of packet `index` of a message starts.
  constexpr uint32_t OffsetOf(uint32_t index) const { return index << shift_; }
  /// The payload of the next packet when `remaining_bytes` are left.
  constexpr uint32_t Take(uint32_t remaining_bytes) const {
    return remaining_bytes < bytes() ? remaining_bytes : bytes();
  }

 private:
  uint8_t shift_ = 10;
  uint32_t bytes_ = 1u << 10;  ///< Stored, because each packet reads it several times.
};

}  // namespace uroce::transport
