// SPDX-License-Identifier: Apache-2.0
// Whether the fds that the daemon sends are what they should be: touching and writing them must not
// end the program or hold it up.
#pragma once

#include <stdint.h>

namespace uroce::shim {

/// Whether `fd` is a memory file of `size_bytes` or more that cannot shrink and is made of ordinary
/// pages: where it is mapped no access raises SIGBUS.
bool IsSealedMemory(int fd, uint64_t size_bytes);

/// Whether `fd` is no file, pipe, device or socket: an eventfd, or another of its kind, on which a
/// write neither raises SIGPIPE nor waits for a peer.
bool IsAnonymous(int fd);

}  // namespace uroce::shim
