// SPDX-License-Identifier: Apache-2.0
// Checks the kinds of the fds that the daemon sends: access to their memory and writes to them must
// neither end the program nor block it.
#pragma once

#include <stdint.h>

namespace uroce::shim {

/// Whether `fd` is a memory file of `size_bytes` or more, which cannot shrink and has ordinary
/// pages: accesses to its mapping never raise SIGBUS.
bool IsSealedMemory(int fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd or another anonymous inode, and no file, pipe, device or socket. A
/// write to such an fd neither raises SIGPIPE nor waits for a peer.
bool IsAnonymous(int fd);

}  // namespace uroce::shim
