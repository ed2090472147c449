// SPDX-License-Identifier: Apache-2.0
// Ends connections, which programs cannot do: a script begins in the state of a new process.
#pragma once

#include <cstdint>

namespace uroce::fuzz {

/// Forgets and frees the connections of this process, and `guard_bytes` of address space on each
/// side of their arenas. No object may refer to them any more, and a daemon must answer.
void EndSessions(uint64_t guard_bytes);

}  // namespace uroce::fuzz
