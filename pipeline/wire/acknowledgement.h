// SPDX-License-Identifier: Apache-2.0
// What an acknowledgement carries beside its PSN: the syndrome of the AETH, the map of a selective
// acknowledgement, and how long a packet may have waited for its receiver's CPU
// (docs/protocol/wire-format.md, section 4; selective-repeat.md).
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/layout.h"

namespace uroce::wire {

// Syndromes of the ACK extended transport header (docs/protocol/wire-format.md, section 4).

inline constexpr uint8_t kSyndromeKindMask = 0xe0;
inline constexpr uint8_t kSyndromeValueMask = 0x1f;

// Kinds: the top three bits. 0x40 and values from 0x80 on are reserved: such packets are ignored.
inline constexpr uint8_t kSyndromeAck = 0x00;     ///< Value: credit code.
inline constexpr uint8_t kSyndromeRnrNak = 0x20;  ///< Value: RNR timer code.
inline constexpr uint8_t kSyndromeNak = 0x60;     ///< Value: reason, below.

/// Credit code of a responder that does not limit its requester.
inline constexpr uint8_t kCreditsUnlimited = 0x1f;

// Whole syndromes of the NAKs.
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
inline constexpr uint8_t kNakInvalidRdRequest = 0x64;

// How long the packet that a response answers may have waited for its receiver's CPU: six bits of
// the BTH, between NICs that agree to it (selective-repeat.md).

/// The six reserved bits beside FECN and BECN. The ICRC does not cover them.
inline constexpr uint8_t kHostDelayMask = 0x3f;
inline constexpr Nanos kHostDelayUnit{8'000};

/// The time of a code: 0 is none; other codes have two bits of fraction and four of exponent, 40 us
/// to 1.8 s.
constexpr Nanos HostDelayOf(uint8_t code) {
  if ((code & kHostDelayMask) == 0) return Nanos(0);
  return Nanos((int64_t{4 + (code & 3)} << (code >> 2 & 15)) * kHostDelayUnit.count());
}

/// The code of the longest time that is not longer than `delay`.
constexpr uint8_t HostDelayCode(Nanos delay) {
  if (delay < HostDelayOf(1)) return 0;
  const auto units = static_cast<uint64_t>(delay.count() / kHostDelayUnit.count());
  const int exponent = static_cast<int>(std::bit_width(units)) - 3;
  if (exponent > 15) return kHostDelayMask;
  return static_cast<uint8_t>(exponent << 2 | static_cast<int>(units >> exponent & 3));
}

static_assert(HostDelayOf(1) == Nanos(40'000) && HostDelayCode(Nanos(40'000)) == 1);
static_assert(HostDelayCode(HostDelayOf(kHostDelayMask)) == kHostDelayMask);

// The map behind the AETH of a selective acknowledgement: which packets from its PSN on the
// responder keeps (selective-repeat.md).

/// Layout: 16 reserved bits, 16 bits for the number of packets, then one bit per packet in words of
/// 32: bit i of word w is the PSN of the acknowledgement + 32 * w + i. 1: the packet is kept.
inline constexpr uint32_t kMaxKeptPackets = 2048;
inline constexpr uint32_t kKeptMapHeaderBytes = 4;
inline constexpr uint32_t kMaxKeptMapBytes = kKeptMapHeaderBytes + kMaxKeptPackets / 8;

/// The size in bytes of a map of `packets` packets.
constexpr uint32_t KeptMapBytes(uint32_t packets) {
  return kKeptMapHeaderBytes + (packets + 31) / 32 * 4;
}

/// A received map: a view of the bytes of the packet, which it does not own.
class KeptMap {
 public:
  /// Returns false when `bytes` is no map. A map has 1 to kMaxKeptPackets packets.
  [[nodiscard]] bool Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kKeptMapHeaderBytes) return false;
    packets_ = reinterpret_cast<const Be<2>*>(bytes.data() + 2)->value();
    words_ = bytes.data() + kKeptMapHeaderBytes;
    return packets_ != 0 && packets_ <= kMaxKeptPackets && bytes.size() == KeptMapBytes(packets_);
  }
  /// The number of packets that the map covers, from the PSN of the acknowledgement on. No later
  /// packet has come.
  uint32_t packets() const { return packets_; }
  /// The bits of the 64 packets from `first` on; 0 behind the last. `first` is a multiple of 64.
  uint64_t Kept(uint32_t first) const { return Word(first) | uint64_t{Word(first + 32)} << 32; }

 private:
  uint32_t Word(uint32_t first) const {
    if (first >= packets_) return 0;
    const uint32_t bits = reinterpret_cast<const Be<4>*>(words_ + first / 8)->value();
    const uint32_t rest = packets_ - first;
    return rest >= 32 ? bits : bits & ((uint32_t{1} << rest) - 1);
  }

  uint32_t packets_ = 0;
  const uint8_t* words_ = nullptr;
};

/// Writes a map of `packets` packets. `kept(first)` returns the bits of the 64 packets from `first`
/// on; bits behind the last packet are ignored. Returns KeptMapBytes(packets).
template <typename KeptBits>
uint32_t WriteKeptMap(uint32_t packets, KeptBits&& kept, std::span<uint8_t, kMaxKeptMapBytes> out) {
  assert(packets <= kMaxKeptPackets);
  const auto put = [&](uint32_t offset, uint32_t value) {
    const Be<4> bytes(value);
    std::memcpy(out.data() + offset, &bytes, sizeof bytes);
  };
  put(0, packets);
  for (uint32_t first = 0; first < packets; first += 32) {
    const auto bits = static_cast<uint32_t>(kept(first & ~uint32_t{63}) >> (first & 32));
    const uint32_t rest = packets - first;
    put(kKeptMapHeaderBytes + first / 8, rest >= 32 ? bits : bits & ((uint32_t{1} << rest) - 1));
  }
  return KeptMapBytes(packets);
}

}  // namespace uroce::wire
