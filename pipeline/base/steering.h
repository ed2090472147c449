// SPDX-License-Identifier: Apache-2.0
// Which worker a queue pair lives on: a property of its number, so that whoever sees a packet knows
// where it goes, without a table that workers would share. Pure.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce {

/// The worker, of `workers`, that owns `qpn`. Shape: each owns one range of numbers. By the high
/// bits and not the low ones, which the workers' own tables hash by; and without a division.
/// The reserved numbers 0 and 1 are worker 0's.   Range: 1 <= workers <= 128.
constexpr uint32_t OwnerOf(Qpn qpn, uint32_t workers) { return (qpn.value() * workers) >> 24; }

/// The first number that `worker` owns; that of `worker` + 1 ends its range.
constexpr uint32_t FirstQpnOf(uint32_t worker, uint32_t workers) {
  return ((worker << 24) + workers - 1) / workers;
}

}  // namespace uroce
