// SPDX-License-Identifier: Apache-2.0
// The newest packets of one direction by their PSN, and the order of their IP identifications,
// which tells copies and late packets from packets that were sent again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tools/analyze/input/packet_reader.h"

namespace uroce::tools::analyze {

/// What stays of a packet. The newest transmission with its PSN counts.
struct PacketMark {
  int64_t time_ns = 0;
  uint32_t frame = 0;  ///< 0: there is no packet with this PSN.
  uint32_t psn = 0;
  uint32_t icrc = 0;
  uint32_t cause = 0;  ///< The finding that explains why it did not arrive in order; 0: none.
  uint16_t identification = 0;
  uint16_t payload_bytes = 0;
  wire::Opcode opcode{};
  uint8_t sends = 0;

  bool valid() const { return frame != 0; }
};

/// Grows with the number of packets in flight, up to a bound.
class PacketRing {
 public:
  static constexpr size_t kLeast = 32;
  static constexpr size_t kMost = 4096;

  /// The packet with this PSN, if it is among the newest.
  PacketMark* Find(wire::Psn psn) {
    if (marks_.empty()) return nullptr;
    PacketMark& mark = marks_[psn.value() & (marks_.size() - 1)];
    return mark.valid() && mark.psn == psn.value() ? &mark : nullptr;
  }
  /// The place of this PSN, with what was there if it was the same PSN, otherwise empty.
  /// `in_flight`: how many PSNs are to be kept.
  PacketMark& Put(wire::Psn psn, uint32_t in_flight) {
    if (marks_.empty() || (in_flight * 2 > marks_.size() && marks_.size() < kMost)) Grow(in_flight);
    PacketMark& mark = marks_[psn.value() & (marks_.size() - 1)];
    if (!mark.valid() || mark.psn != psn.value()) {
      mark = PacketMark{};
      mark.psn = psn.value();
    }
    return mark;
  }
  void Clear() { marks_.clear(); }
  size_t capacity() const { return marks_.size(); }

 private:
  void Grow(uint32_t in_flight) {
    size_t wanted = std::max(kLeast, marks_.size());
    while (wanted < size_t{in_flight} * 2 && wanted < kMost) wanted *= 2;
    std::vector<PacketMark> grown(wanted);
    for (const PacketMark& mark : marks_) {
      if (mark.valid()) grown[mark.psn & (wanted - 1)] = mark;
    }
    marks_ = std::move(grown);
  }

  std::vector<PacketMark> marks_;
};

/// Whether identification `a` was given before `b`, if the sender's rise.
constexpr bool IsBefore(uint16_t a, uint16_t b) { return static_cast<int16_t>(a - b) < 0; }

/// Whether a sender numbers its packets by the IP identification. Most do; a sender behind a socket
/// does not, and IPv6 has none.
class IdentificationOrder {
 public:
  void Add(uint16_t identification) {
    const auto step = static_cast<int16_t>(identification - last_);
    last_ = identification;
    if (!begun_) {
      begun_ = true;
      newest_ = identification;
      return;
    }
    const auto ahead = static_cast<int16_t>(identification - newest_);
    if (ahead > 0 || ahead < -kMostStep) newest_ = identification;
    rising_ += step > 0 && step <= kMostStep;
    other_ += step < 0 || step > kMostStep;
    same_ += step == 0;
  }
  /// Each packet has a higher one than the packet sent before it.
  bool rises() const { return rising_ >= 2 && rising_ >= 4 * uint64_t{other_} + 4 * same_; }
  /// A packet with this one cannot have been overtaken by those before: it was sent behind them.
  bool IsInOrder(uint16_t identification) const {
    return rises() && IsBefore(newest_, identification);
  }
  /// It was sent before a packet that came before it.
  bool IsLate(uint16_t identification) const {
    return rises() && IsBefore(identification, newest_);
  }
  uint16_t newest() const { return newest_; }
  bool is_constant() const { return same_ >= 4 && same_ >= 8 * uint64_t{rising_ + other_}; }

 private:
  static constexpr int kMostStep = 4096;
  uint16_t last_ = 0;
  uint16_t newest_ = 0;
  bool begun_ = false;
  uint32_t rising_ = 0;
  uint32_t other_ = 0;
  uint64_t same_ = 0;
};

/// Whether `again` is a copy that the network made of the packet of `mark`: a sender gives its own
/// transmissions different identifications. Without them, only a packet that comes within
/// `least_resend_ns` is a copy: the sender cannot know of a loss sooner. 0: not known.
inline bool IsCopy(const PacketMark& mark, const CapturedPacket& again,
                   const IdentificationOrder& order, int64_t least_resend_ns) {
  constexpr int64_t kMostUnknownNs = 1'000'000;
  if (mark.identification != again.identification || mark.icrc != again.icrc_bytes) return false;
  if (again.direction == Direction::kOutbound) return false;  // Its own host sent it.
  if (order.rises()) return true;
  if (again.icrc == IcrcState::kUnknown) return false;
  const bool has_identification = again.identification != 0 && !order.is_constant();
  if (least_resend_ns == 0 && has_identification) least_resend_ns = kMostUnknownNs;
  return again.time_ns - mark.time_ns < least_resend_ns;
}

}  // namespace uroce::tools::analyze
