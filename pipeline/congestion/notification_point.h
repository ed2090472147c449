// SPDX-License-Identifier: Apache-2.0
// When a receiver of marked packets sends CNPs (docs/protocol/congestion.md, section 4).
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/opcode.h"

namespace uroce::congestion {

/// Whether a CNP answers a mark on a packet of `opcode`. True for requests and READ responses,
/// false for CNPs and acknowledgements.
constexpr bool IsNotified(wire::Opcode opcode) {
  if (opcode == wire::Opcode::kCnp || wire::IsOfManufacturer(opcode)) return false;
  const wire::Opcode operation = wire::OperationOf(opcode);
  return operation != wire::Opcode::kAcknowledge && operation != wire::Opcode::kAtomicAcknowledge;
}

/// One flow: at most one CNP in each interval, and at most one for the packets of a burst, which
/// all have the same time. Pure.
class NotificationPoint {
 public:
  /// A packet with a mark has come. True: the caller must send a CNP, which counts as sent.
  /// `interval` is min_time_between_cnps.
  bool OnMarked(Nanos now, Nanos interval) {
    const bool is_first = last_ == kNever;
    if (!is_first && (now - last_ < interval || now == last_)) return false;
    last_ = now;
    return true;
  }

 private:
  Nanos last_ = kNever;  ///< Time of the last CNP; kNever when there was none.
};

/// The flows of datagrams, which may have many senders: a hash table of fixed size. Flows with the
/// same place share one interval. Pure, one thread.
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
