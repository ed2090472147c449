// SPDX-License-Identifier: Apache-2.0
// Built without control of access: what a session keeps for ever is its own.
#include "tests/fuzz/shim_sessions.h"

#include <sys/mman.h>

#include "verbs-shim/session.h"

namespace uroce::fuzz {

void EndSessions(uint64_t guard_bytes) {
  shim::Session* session = shim::Session::Get();  // The newest, and it knows the older ones.
  shim::Session::InChild();                       // Closes the fds and forgets the sessions.
  while (session != nullptr) {
    munmap(session->arena_ - guard_bytes, UROCE_ARENA_BYTES + 2 * guard_bytes);
    for (auto* middle : session->queue_pairs_.roots_) {
      if (middle == nullptr) continue;
      for (auto* leaf : middle->leaves) shim::Free(leaf);
      shim::Free(middle);
    }
    for (auto* chunk : session->cm_ids_.chunks_) shim::Free(chunk);
    shim::Session* const older = session->older_;
    shim::Free(session);
    session = older;
  }
}

}  // namespace uroce::fuzz
