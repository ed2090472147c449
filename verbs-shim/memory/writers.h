// SPDX-License-Identifier: Apache-2.0
// Whether the other threads of this process survive a fault on memory that they write to.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {

/// What the kernel tells of one thread.
struct ThreadState {
  bool is_dead = false;        // it has ended, or nearly
  bool blocks_segv = false;    // in its own mask, or maybe: a system call has another one meanwhile
  uint64_t stack_pointer = 0;  // 0: not known, it is running
};

/// Reads the text of /proc/self/task/ID/status into `state`. False: the text tells nothing.
[[nodiscard]] bool ParseStatus(std::string_view text, ThreadState& state);
/// Reads the text of /proc/self/task/ID/syscall. `read_word` reads a word of this process's memory.
[[nodiscard]] bool ParseSystemCall(std::string_view text, bool (*read_word)(uint64_t, uint64_t&),
                                   ThreadState& state);

/// Whether every thread but the caller can meet a handler of SIGSEGV: none blocks the signal, for
/// then a fault ends the process. Appends to `stack_pointers` those of the threads that are in a
/// system call: a handler needs a stack that is not where the fault was.
[[nodiscard]] bool CanAllWait(std::span<const ThreadRecord> threads,
                              MappedArray<uint64_t>& stack_pointers);

}  // namespace uroce::memory
