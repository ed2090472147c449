// SPDX-License-Identifier: Apache-2.0
// Which worker owns a queue pair: computed from the QPN, so that every receiver of a packet knows
// its worker without a table that workers would share. Pure.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce {

/// The most workers of a daemon: a WorkerSet has one bit for each.
inline constexpr uint32_t kMaxWorkers = 64;

/// A set of workers, one bit each.
using WorkerSet = uint64_t;
constexpr WorkerSet SetOf(uint32_t worker) { return WorkerSet{1} << worker; }
static_assert(kMaxWorkers <= 8 * sizeof(WorkerSet));

/// The worker, of `workers`, that owns `qpn`. Each worker owns one range of numbers, and worker 0
/// owns the reserved 0 and 1. The high bits decide, because the workers' own tables hash by the low
/// bits; no division is needed. Range: 1 <= workers <= kMaxWorkers.
constexpr uint32_t OwnerOf(Qpn qpn, uint32_t workers) { return (qpn.value() * workers) >> 24; }

static_assert(OwnerOf(Qpn(0xffffff), kMaxWorkers) == kMaxWorkers - 1);

/// The first QPN that `worker` owns. Its range ends before the first QPN of `worker` + 1.
constexpr uint32_t FirstQpnOf(uint32_t worker, uint32_t workers) {
  return ((worker << 24) + workers - 1) / workers;
}

}  // namespace uroce
