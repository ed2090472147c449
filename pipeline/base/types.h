// SPDX-License-Identifier: Apache-2.0
// Small value types of the whole pipeline, and which worker owns a queue pair. Integers that could
// be swapped by mistake have different types. Pure.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace uroce {

/// A point in time or a duration, in nanoseconds. The clock defines the origin: the pure core only
/// compares and adds times.
class Nanos {
 public:
  constexpr Nanos() = default;
  constexpr explicit Nanos(int64_t count) : count_(count) {}
  constexpr int64_t count() const { return count_; }
  constexpr Nanos operator+(Nanos other) const { return Nanos(count_ + other.count_); }
  constexpr Nanos operator-(Nanos other) const { return Nanos(count_ - other.count_); }
  constexpr Nanos operator*(int64_t factor) const { return Nanos(count_ * factor); }
  friend constexpr auto operator<=>(Nanos, Nanos) = default;

 private:
  int64_t count_ = 0;
};

/// The value of a deadline that does not exist.
inline constexpr Nanos kNever{INT64_MAX};

/// Queue pair number: 24 bits. 0 and 1 are reserved (SMI, GSI), 0xffffff is multicast.
class Qpn {
 public:
  constexpr Qpn() = default;
  constexpr explicit Qpn(uint32_t value) : value_(value & 0xffffff) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Qpn, Qpn) = default;

 private:
  uint32_t value_ = 0;
};

/// The key by which a peer names a memory region or window: 24 bits of index, 8 bits of variant.
class Rkey {
 public:
  constexpr Rkey() = default;
  constexpr explicit Rkey(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Rkey, Rkey) = default;

 private:
  uint32_t value_ = 0;
};

/// The key by which the owner of a memory region names it in a scatter/gather entry.
class Lkey {
 public:
  constexpr Lkey() = default;
  constexpr explicit Lkey(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Lkey, Lkey) = default;

 private:
  uint32_t value_ = 0;
};

/// Ethernet address, in wire order.
using Mac = std::array<uint8_t, 6>;

/// RoCE address of a port: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. In wire order.
struct Gid {
  std::array<uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  constexpr bool is_ipv4() const {
    for (int i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
};

// Which worker a queue pair's number says: every receiver of a packet computes it from the QPN. The
// control thread may move the queue pair to another one (pipeline/port/qpn_owners.h). Pure.

/// The most workers of a daemon: a WorkerSet has one bit for each.
inline constexpr uint32_t kMaxWorkers = 64;

/// A set of workers, one bit each.
using WorkerSet = uint64_t;
constexpr WorkerSet SetOf(uint32_t worker) { return WorkerSet{1} << worker; }
static_assert(kMaxWorkers <= 8 * sizeof(WorkerSet));

/// The worker, of `workers`, that `qpn` says. Each worker has one range of numbers, and worker 0
/// has the reserved 0 and 1. The high bits decide, because the workers' own tables hash by the low
/// bits; no division is needed. Range: 1 <= workers <= kMaxWorkers.
constexpr uint32_t OwnerOf(Qpn qpn, uint32_t workers) { return (qpn.value() * workers) >> 24; }

static_assert(OwnerOf(Qpn(0xffffff), kMaxWorkers) == kMaxWorkers - 1);

/// The first QPN of `worker`. Its range ends before the first QPN of `worker` + 1.
constexpr uint32_t FirstQpnOf(uint32_t worker, uint32_t workers) {
  return ((worker << 24) + workers - 1) / workers;
}

}  // namespace uroce
