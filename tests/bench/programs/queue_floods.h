// SPDX-License-Identifier: Apache-2.0
// Floods the daemon by many queues of one program.
#pragma once

#include "tests/e2e/programs/hostile/program.h"

namespace uroce::bench {

/// Ends the process with the message `what` if `condition` is false.
void Require(bool condition, const char* what);

/// Prints the line that says that the flood begins.
void SayReady();

/// Rings for all queue pairs again and again.
[[noreturn]] void FloodDoorbells(hostile::Program& program);
/// Makes as many queue pairs of a type as a program may have, in RESET.
void MakeManyQueuePairs(hostile::Program& program, uint32_t type);
/// Makes thousands of armed completion queues complete while their channel is full.
void FillChannel(hostile::Program& program);
/// Makes thousands of queue pairs wait for a copy from memory of a device that the program does not
/// serve.
void StartStuckCopies(hostile::Program& program);

}  // namespace uroce::bench
