// SPDX-License-Identifier: Apache-2.0
// Floods the daemon by the kernel's work on files whose pages many processes have mapped.
#pragma once

#include "tests/e2e/programs/hostile/program.h"

namespace uroce::bench {

/// Posts work whose queues a second process frees meanwhile. The kernel tells each mapping of a
/// page that goes, and a thread that touches the page waits for that.
[[noreturn]] void FloodHoles(hostile::Program& program);

/// Whose file holds the memory of a flood.
enum class MemoryKind : uint8_t {
  kLent,     ///< The program's own.
  kSegment,  ///< The daemon's, which replaces private pages.
};
/// Sends from registered memory and writes to it, while a second process frees it.
[[noreturn]] void FloodMemoryHoles(hostile::Program& program, MemoryKind kind);

/// Writes and frees as MemoryKind::kLent does, but to a file that the daemon does not know.
[[noreturn]] void FreeOwnFile();

}  // namespace uroce::bench
