// SPDX-License-Identifier: Apache-2.0
// Which files programs find in the daemon's directory in place of the usual one. Pure.
#pragma once

#include <stddef.h>

namespace uroce::shim {

/// Writes where the daemon keeps what stands at `path`, under `tree`, to `place` of `room` bytes.
/// False: the path is of another kind, or the name does not fit.
bool RedirectPath(const char* path, const char* tree, char* place, size_t room);

}  // namespace uroce::shim
