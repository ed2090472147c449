// SPDX-License-Identifier: Apache-2.0
// What a program can do to what it shares with the daemon.
#pragma once

#include <string>
#include <vector>

#include "tests/e2e/programs/hostile/program.h"

namespace uroce::hostile {

/// Queues, doorbells, arm words: something is written, rightly or wrongly.
void AttackMemory(Program& program, Random& random);
/// A command, more or less well formed. False: the daemon has hung up.
bool AttackCommands(Program& program, Random& random);
/// Fds where none belong, or of a kind that does not; sizes, holes, pipes. `stuck_fd`: a thread
/// that reads or closes it waits; or -1.
bool AttackFiles(Program& program, Random& random, int stuck_fd);
/// A connection that does not get as far as a program.
void AttackHello(const std::string& socket_path, Random& random);

/// Has one of the program's regions copied, from a process that has ended or from where nothing is.
void AddCopies(Program& program, Random& random);

/// Holds the lock of the arena's file. "no userfaultfd" where the attack needs one.
std::string LockArena(const std::string& socket_path);
/// Frees pages of the arena, which a worker that touches them would wait for.
std::string FreePagesOfArena(const std::string& socket_path);
/// The same of a segment, and of files of the program, which the daemon is not to map then.
std::string FreePagesOfSegment(const std::string& socket_path);
std::string LendFreeableFiles(const std::string& socket_path);

/// An attack with an end that is right, by its name: what is left of the promise is said.
struct Attack {
  const char* name;
  /// Empty: the daemon stood it.
  std::string (*run)(const std::string& socket_path);
};
extern const std::vector<Attack> kAttacks;

}  // namespace uroce::hostile
