// SPDX-License-Identifier: Apache-2.0
// Opens and writes files of the connection manager on behalf of the program.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "verbs-shim/cm_files.h"

namespace uroce::shim {

/// Result of OpenCm: the shim does not serve the node, and the caller opens what has its name.
inline constexpr int kNotOurs = -2;

/// Whether `path` is the node of the connection manager. Async-signal-safe.
bool IsCmNode(const char* path);

/// Acts as open(2) on the node: an fd, -1 with errno, or kNotOurs without a daemon or with
/// UROCE_CM=off.
int OpenCm(int flags);

/// Acts as write(2) of a command to `file`, whose fd is `fd`. Answers go where the command points
/// to.
ssize_t WriteCm(const CmFile& file, int fd, const void* data, size_t size_bytes);

}  // namespace uroce::shim
