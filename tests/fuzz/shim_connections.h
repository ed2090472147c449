// SPDX-License-Identifier: Apache-2.0
// The end of connections, which programs do not have: a script begins as a process does.
#pragma once

#include <cstdint>

namespace uroce::fuzz {

/// Forgets and frees the connections of this process, and `guard_bytes` of address space on each
/// side of their arenas. No object refers to them any more, and a daemon answers.
void EndSessions(uint64_t guard_bytes);

}  // namespace uroce::fuzz
