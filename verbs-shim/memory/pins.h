// SPDX-License-Identifier: Apache-2.0
// Whether another process or the kernel may hold pages of this process in place, and would continue
// to use them when other pages lie at their addresses.
#pragma once

namespace uroce::memory {

// The caller holds the lock of the registrations.

/// Whether the kernel counts pinned pages of this process (VmPin): buffers that are registered with
/// io_uring or with another RDMA adapter. False also where /proc does not tell.
bool HasCountedPins();

/// Whether the program has a file open whose driver may pin pages without counting them: a device
/// that is not known to leave memory alone (GPUs, VFIO, video), or an AF_XDP socket. Costs about a
/// microsecond for each open file. True where /proc does not tell.
bool HasPinningFile();

/// Whether pages of this process may be pinned, as far as it can be told without a look at the
/// pages. RemapPages() can look at them.
inline bool MayHavePins() { return HasCountedPins() || HasPinningFile(); }

}  // namespace uroce::memory
