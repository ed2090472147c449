// SPDX-License-Identifier: Apache-2.0
// Which worker a queue pair lives on: a property of its number, so that whoever sees a packet knows
// where it goes, without a table that workers would share. Pure.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce {

/// Workers of a daemon, at most: as many as a set of them has bits.
inline constexpr uint32_t kMaxWorkers = 64;

/// A set of workers, one bit each.
using WorkerSet = uint64_t;
constexpr WorkerSet SetOf(uint32_t worker) { return WorkerSet{1} << worker; }
static_assert(kMaxWorkers <= 8 * sizeof(WorkerSet));

/// The worker, of `workers`, that owns `qpn`. Shape: each owns one range of numbers. By the high
/// bits and not the low ones, which the workers' own tables hash by; and without a division.
/// The reserved numbers 0 and 1 are worker 0's.   Range: 1 <= workers <= kMaxWorkers.
constexpr uint32_t OwnerOf(Qpn qpn, uint32_t workers) { return (qpn.value() * workers) >> 24; }

static_assert(OwnerOf(Qpn(0xffffff), kMaxWorkers) == kMaxWorkers - 1);

/// The first number that `worker` owns; that of `worker` + 1 ends its range.
constexpr uint32_t FirstQpnOf(uint32_t worker, uint32_t workers) {
  return ((worker << 24) + workers - 1) / workers;
}

}  // namespace uroce
