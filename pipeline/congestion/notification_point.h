// SPDX-License-Identifier: Apache-2.0
// When a receiver of marked packets says so (docs/protocol/congestion.md, section 4).
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/opcode.h"

namespace uroce::congestion {

/// Whether a mark on such a packet is answered: requests and READ responses. Neither CNPs, which
/// are never answered, nor acknowledgements.
constexpr bool IsNotified(wire::Opcode opcode) {
  if (opcode == wire::Opcode::kCnp || wire::IsOfManufacturer(opcode)) return false;
  const wire::Opcode operation = wire::OperationOf(opcode);
  return operation != wire::Opcode::kAcknowledge && operation != wire::Opcode::kAtomicAcknowledge;
}

/// One flow: at most one CNP in each interval, and one for the packets of a burst, for which time
/// stands still. Pure.
class NotificationPoint {
 public:
  /// A packet with a mark has come. True: a CNP is due, and counts as sent. `interval` is
  /// min_time_between_cnps.
  bool OnMarked(Nanos now, Nanos interval) {
    const bool is_first = last_ == kNever;
    if (!is_first && (now - last_ < interval || now == last_)) return false;
    last_ = now;
    return true;
  }

 private:
  Nanos last_ = kNever;  ///< Of the last CNP; kNever: there was none.
};

/// The flows of datagrams, whose senders are many: some share a place, and then an interval.
/// Pure, one thread.
class DatagramNotificationPoints {
 public:
  bool OnMarked(const Gid& source, Qpn source_qpn, Nanos now, Nanos interval) {
    return points_[PlaceOf(source, source_qpn)].OnMarked(now, interval);
  }

 private:
  static constexpr uint32_t kPlaces = 1024;

  static uint32_t PlaceOf(const Gid& source, Qpn source_qpn) {
    uint32_t hash = source_qpn.value() * 0x9e3779b1;
    for (const uint8_t byte : source.bytes) hash = (hash ^ byte) * 0x01000193;
    return (hash ^ hash >> 16) % kPlaces;
  }

  std::array<NotificationPoint, kPlaces> points_;
};

}  // namespace uroce::congestion
