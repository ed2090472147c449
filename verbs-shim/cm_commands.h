// SPDX-License-Identifier: Apache-2.0
// Files of the connection manager: what opening and writing them does.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "verbs-shim/cm_files.h"

namespace uroce::shim {

/// OpenCm: the node is not ours, but whatever else there is under its name.
inline constexpr int kNotOurs = -2;

/// Whether `path` is the node of the connection manager. Async-signal-safe.
bool IsCmNode(const char* path);

/// open(2) of the node: an fd, -1 with errno, or kNotOurs: there is no daemon, or UROCE_CM=off.
int OpenCm(int flags);

/// write(2) of a command to a file, which is `fd`. Answers go where the command points to.
ssize_t WriteCm(const CmFile& file, int fd, const void* data, size_t size_bytes);

}  // namespace uroce::shim
