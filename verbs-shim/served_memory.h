// SPDX-License-Identifier: Apache-2.0
// What the threads have in common by which this library serves the daemon: memory that both share,
// and a thread that the program does not know.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/daemon_connection.h"

namespace uroce::shim {

/// A file that this library keeps open. The program may close all fds that it does not know, and
/// open others with the same numbers.
class KeptFile {
 public:
  KeptFile() = default;
  explicit KeptFile(int fd);
  int fd() const { return fd_; }
  /// Whether the fd still has its number.
  bool IsThere() const;

 private:
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

/// Memory that the daemon has made.
struct ServedMemory {
  void* mapped = nullptr;
  size_t bytes = 0;
  int fd = -1;  ///< Of its file; the caller closes or keeps it.
};

/// Has the daemon make memory of at least `least_bytes` by `command`, which replies with a file,
/// and maps it, but not in fork children. Returns 0 or an errno.
int MapServedMemory(DaemonConnection& connection, uroce_command command, size_t least_bytes,
                    ServedMemory* memory);

/// Starts a detached thread that takes no signal of the program but SIGSEGV: private memory is not
/// mapped without a userfaultfd while a thread blocks that one. Returns 0 or an errno.
int StartServingThread(void* (*run)(void*), void* argument);

/// Waits, as long as `word` is `value`, until the daemon wakes the thread. False: some seconds have
/// passed, and the thread looks whether the daemon is gone.
bool AwaitWake(const uint32_t& word, uint32_t value);

/// Wakes a worker that sleeps, after a store that it waits for.
void WakeWorker(DaemonConnection& connection, uint32_t worker);

}  // namespace uroce::shim
