// SPDX-License-Identifier: Apache-2.0
// The program's end of its copy lanes: a thread that moves bytes of the program's own memory for
// the daemon (pipeline/shm/abi/uroce_copies.h).
#pragma once

#include "verbs-shim/daemon_connection.h"

namespace uroce::shim {

/// Has the daemon make the copy lanes of `connection`, and starts the thread that serves them.
/// Called once for a connection, by the holder of the registry of memory. Returns 0 or an errno:
/// the daemon reaches the memory without lanes, too, but slower. UROCE_OWN_COPIES=0 gives
/// EOPNOTSUPP.
///
/// The thread lasts until the process or the connection ends. A fork child has neither the thread
/// nor the memory. The thread takes no signal but SIGSEGV. A page that it waits for makes this
/// program's copies wait alone. It copies by system calls on files, so an address without memory is
/// an error, and no signal.
int OpenOwnCopies(DaemonConnection& connection);

}  // namespace uroce::shim
