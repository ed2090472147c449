// SPDX-License-Identifier: Apache-2.0
// Built without access control, because it frees private members that a connection never frees.
#include "tests/fuzz/shim/shim_connections.h"

#include <sys/mman.h>

#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/poller.h"

namespace uroce::fuzz {

void EndSessions(uint64_t guard_bytes) {
  shim::DaemonConnection* connection =
      shim::DaemonConnection::Get();  // The newest connection, which links to the older ones.
  shim::DaemonConnection::InChild();  // Closes the fds and forgets the connections.
  shim::t_poller = shim::Poller();    // It may refer to one.
  while (connection != nullptr) {
    munmap(connection->arena_ - guard_bytes, UROCE_ARENA_BYTES + 2 * guard_bytes);
    for (auto* middle : connection->queue_pairs_.roots_) {
      if (middle == nullptr) continue;
      for (auto* leaf : middle->leaves) shim::Free(leaf);
      shim::Free(middle);
    }
    for (auto* chunk : connection->cm_ids_.chunks_) shim::Free(chunk);
    shim::DaemonConnection* const older = connection->older_;
    shim::Free(connection);
    connection = older;
  }
}

}  // namespace uroce::fuzz
