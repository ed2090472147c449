// SPDX-License-Identifier: Apache-2.0
// The copy that places payload. Programs poll on memory while it is written, so the order of the
// stores is part of what the NIC promises. memcpy promises no order (that of glibc stores the end
// of some lengths before the beginning).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::datapath {

/// Copies in rising addresses. At any moment the destination holds the first bytes of the source,
/// and behind them its old bytes; the number of copied bytes never falls. An aligned piece of eight
/// bytes is one store, and so are the aligned pieces of four and two that the ends leave.
/// Shape: any length and alignment; the two ranges do not overlap.
/// Order: x86-64 makes stores visible in program order, and each of them is in one cache line.
///   Stores of up to 16 bytes are visible at once. Wider ones may become visible in parts, so the
///   last cache line, where most programs poll, has none. On arm64 each store is a release.
void OrderedCopy(uint8_t* to, const uint8_t* from, size_t length_bytes);

/// The copy for one instruction set. For tests and benchmarks.
struct OrderedCopyKernel {
  const char* name;
  void (*copy)(uint8_t* to, const uint8_t* from, size_t length_bytes);
};

/// The kernels that this machine can run, best first. OrderedCopy uses the first.
std::span<const OrderedCopyKernel> AvailableOrderedCopyKernels();

}  // namespace uroce::datapath
