// SPDX-License-Identifier: Apache-2.0
// Finds the stacks and thread control blocks of this process, which are never swapped.
#pragma once

#include <cstdint>
#include <span>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

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

}  // namespace uroce::memory
