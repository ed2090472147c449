// SPDX-License-Identifier: Apache-2.0
// This process's own files in /proc. They are opened early and kept: later the program may have no
// free fd, have no /proc (chroot), or have no right to them (setuid).
#pragma once

#include <cstdint>

namespace uroce::memory {

enum class ProcessFile : uint8_t { kMaps, kTasks, kStatus, kMemory };
inline constexpr int kProcessFiles = 4;

// The caller holds the lock of the registrations.

/// The open file, at its beginning; it stays open. Opens it where it is not kept, or where the
/// program has closed it. Returns a negative errno when it cannot be opened.
[[nodiscard]] int64_t OpenProcessFile(ProcessFile file);

/// Opens all files that are not open.
void KeepProcessFiles();

/// Called in a fork child: closes the files, which are the parent's.
void ForgetProcessFiles();

}  // namespace uroce::memory
