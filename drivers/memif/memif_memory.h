// SPDX-License-Identifier: Apache-2.0
// Memory that the two ends of a memif share, and the fds that go with it.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/base/mapping_guard.h"

namespace uroce::drivers {

/// A mapped memory file that cannot shrink. Its pages may go all the same, and be missing where
/// they are huge ones: the peer that has taken them away reads and writes others than we do from
/// then on.
struct MemifMemory {
  Fd fd;
  GuardedMapping mapping;
  uint64_t size_bytes = 0;
  std::span<uint8_t> bytes() const { return {mapping.data(), size_bytes}; }
};

/// A new file of `size_bytes` zeros. Errors name the system call.
absl::StatusOr<MemifMemory> MakeMemifMemory(uint64_t size_bytes);

/// Maps the peer's file. Any thread. Errors: not a memory file, not sealed against shrinking, or
/// smaller than `size_bytes`.
absl::StatusOr<MemifMemory> MapMemifMemory(Fd fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd.
bool IsEventFd(int fd);

}  // namespace uroce::drivers
