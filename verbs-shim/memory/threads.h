// SPDX-License-Identifier: Apache-2.0
// The threads of this process: their stacks and control blocks, which are never remapped, whether
// they survive a fault on memory that they write to, and what they wait on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

// ---- Stacks and thread control blocks, which are never remapped ----

/// A thread as the kernel describes it.
struct ThreadRecord {
  int64_t id;
  uint64_t control_block;  // an address in glibc's thread control block; 0 when it has none
  bool is_main;
};

/// Lists all threads. glibc tells the kernel the address of each thread's list of robust mutexes,
/// which is in the control block. Returns 0 or an errno; then no thread is known.
[[nodiscard]] int ListThreads(MappedArray<ThreadRecord>& threads);

/// Where a thread's static thread-local storage lies: right below its control block, or right
/// above.
enum class TlsPlace : uint8_t { kBelow, kAbove };

/// As the ABI of the processor has it.
#ifdef __aarch64__
constexpr TlsPlace kOwnTlsPlace = TlsPlace::kAbove;
#else
constexpr TlsPlace kOwnTlsPlace = TlsPlace::kBelow;
#endif

/// Bytes of static thread-local storage of each thread, or slightly more than that. Takes the
/// dynamic loader's lock.
uint64_t StaticTlsBytes();

/// The input of FindUntouchable().
struct ThreadFacts {
  std::span<const Vma> mappings;
  std::span<const ThreadRecord> threads;
  uint64_t static_tls_bytes;
  uint64_t stack_pointer;  // of the caller, which may run on a coroutine's stack
  TlsPlace tls_place = kOwnTlsPlace;
};

/// Appends, page aligned, the parts of `facts.mappings` that are stacks, control blocks or static
/// thread-local storage. Pure. A thread's stack lies below its control block, in the same mapping.
/// Its size is not known, so the part begins at the start of that mapping. False: no memory.
[[nodiscard]] bool FindUntouchable(const ThreadFacts& facts, MappedArray<AddressRange>& ranges);

// ---- Whether threads survive a fault ----

/// What the kernel tells of one thread.
struct ThreadState {
  bool is_dead = false;        // it has ended, or nearly
  bool blocks_segv = false;    // in its own mask, or maybe: a system call has another one meanwhile
  uint64_t stack_pointer = 0;  // 0: not known, it is running
  uint64_t futex = 0;          // the word that it waits on, of a futex that is not private; or 0
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

// ---- What threads wait on ----

/// Appends the words in `pages` on which other threads sleep by futex(2), but those of private
/// futexes, which the kernel knows by their address alone. Costs some microseconds for each thread.
/// False: no memory.
[[nodiscard]] bool FindFutexes(std::span<const ThreadRecord> threads, AddressRange pages,
                               MappedArray<uint64_t>& words);

}  // namespace uroce::memory
