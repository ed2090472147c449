// SPDX-License-Identifier: Apache-2.0
// Maps paths of the system to those in the daemon's directory that programs see instead. Pure.
#pragma once

#include <stddef.h>

namespace uroce::shim {

/// Writes to `place`, of `room` bytes, the path under `tree` that the daemon has in place of
/// `path`. False: `path` is not redirected, or the name does not fit.
bool RedirectPath(const char* path, const char* tree, char* place, size_t room);

}  // namespace uroce::shim
