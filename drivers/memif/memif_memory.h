// SPDX-License-Identifier: Apache-2.0
// Memory that the two ends of a memif share, and the fds that come with it.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/base/mapping_guard.h"

namespace uroce::drivers {

/// A mapped memory file that cannot shrink. The peer can still take its pages away: after that the
/// peer reads and writes other pages than we do, and huge pages may be missing when we access
/// them.
struct MemifMemory {
  Fd fd;
  GuardedMapping mapping;
  uint64_t size_bytes = 0;
  std::span<uint8_t> bytes() const { return {mapping.data(), size_bytes}; }
};

/// Makes a file of `size_bytes` zeros. Errors name the system call.
absl::StatusOr<MemifMemory> MakeMemifMemory(uint64_t size_bytes);

/// Maps the peer's file. Any thread. Errors: the file is no memory file, is not sealed against
/// shrinking, or is smaller than `size_bytes`.
absl::StatusOr<MemifMemory> MapMemifMemory(Fd fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd.
bool IsEventFd(int fd);

}  // namespace uroce::drivers
