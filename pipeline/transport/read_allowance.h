// SPDX-License-Identifier: Apache-2.0
// How much a requester may ask for by READs, where the receive buffer of its port is small.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace uroce::transport {

/// What responses to READs, `packets` of them with `bytes` of data, take of a receive buffer.
/// Linux counts the memory of a packet and not its bytes. Measured (6.18, veth and tap): 832 bytes
/// for a datagram of 60 bytes, 2304 for 1084, 8448 for 4156, so twice the bytes and 1 KB at most. A
/// superframe takes little more than its bytes (59,016 for one of 58,184). Ends of this make, which
/// agree to selective repeat, send superframes.
constexpr uint64_t ReceiveBufferBytes(uint64_t bytes, uint32_t packets, bool selective) {
  constexpr uint64_t kHeaderBytes = 24;  // BTH, AETH or pad, ICRC.
  constexpr uint64_t kPerPacket = 1024;
  constexpr uint64_t kPerPacketOfSuperframe = 256;
  const uint64_t sent = bytes + kHeaderBytes * packets;
  return selective ? sent + kPerPacketOfSuperframe * packets : 2 * sent + kPerPacket * packets;
}

/// The receive buffer that READs of one requester may still fill. Without a limit it costs a READ
/// one comparison.
class ReadAllowance {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  bool is_limited() const { return left_bytes_ != kUnlimited; }
  uint64_t left_bytes() const { return left_bytes_; }
  void Set(uint64_t bytes) { left_bytes_ = bytes; }

  bool Covers(uint64_t bytes) const { return bytes <= left_bytes_; }
  /// A request for that leaves.
  void Take(uint64_t bytes) {
    if (is_limited()) left_bytes_ -= std::min(left_bytes_, bytes);
  }

 private:
  uint64_t left_bytes_ = kUnlimited;
};

}  // namespace uroce::transport
