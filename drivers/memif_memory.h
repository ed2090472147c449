// SPDX-License-Identifier: Apache-2.0
// Memory that the two ends of a memif share, and the fds that go with it. Control thread.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "drivers/fd.h"

namespace uroce::drivers {

/// A mapped memory file that cannot shrink, of ordinary pages: touching it never raises SIGBUS.
struct MemifMemory {
  Fd fd;
  Mapping mapping;
  std::span<uint8_t> bytes() const { return {mapping.data(), mapping.length()}; }
};

/// A new file of `size_bytes` zeros. Errors name the system call.
absl::StatusOr<MemifMemory> MakeMemifMemory(uint64_t size_bytes);

/// Maps the peer's file. Errors: not a memory file, of huge pages, not sealed against shrinking, or
/// smaller than `size_bytes`.
absl::StatusOr<MemifMemory> MapMemifMemory(Fd fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd.
bool IsEventFd(int fd);

}  // namespace uroce::drivers
