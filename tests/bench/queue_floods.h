// SPDX-License-Identifier: Apache-2.0
// Floods by many queues of one program.
#pragma once

#include "tests/e2e/hostile/program.h"

namespace uroce::bench {

/// Ends the process with `what` where `condition` does not hold.
void Require(bool condition, const char* what);

/// Makes as many queue pairs of a type as a program may have, in RESET.
/// Of pages that never come. Needs root.
void OpenUserfaultfd();
void MakeManyQueuePairs(hostile::Program& program, uint32_t type);
/// Has thousands of armed completion queues complete while their channel is full.
void FillChannel(hostile::Program& program);
/// Has thousands of queue pairs wait for a copy from memory that cannot be read.
void StartStuckCopies(hostile::Program& program);

}  // namespace uroce::bench
