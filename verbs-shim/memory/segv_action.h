// SPDX-License-Identifier: Apache-2.0
// A handler of SIGSEGV in front of the program's own action, which the program does not see, and
// the state that threads share that meet such a fault.
#pragma once

#include <csignal>
#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

// ---- What threads share that meet the handler ----
// It lies in a page that a fork child has as zeros, however it was made: no window is open there,
// and no lock is held.

/// All fields are 0 before the first use. The words are used by atomic operations.
struct FaultState {
  uint32_t action_lock;  // of the program's action
  uint32_t sequence;     // odd: a window is open; grows with each change; a futex
  uint32_t unused_word;  // no thread ever waits on it
  uint32_t reserved;
  AddressRange pages;  // of the window
};

/// Makes the state, once. False: the kernel has no memory, or does not wipe it on fork. The caller
/// holds the lock of the registrations.
[[nodiscard]] bool MakeFaultState();
/// The state, or null before it was made. Any thread, signal handlers too.
FaultState* FindFaultState();

/// Sleeps until `sequence` is no longer `value`, or for less.
void AwaitSequence(FaultState& state, uint32_t value);

// ---- The program's action and the handler in front of it ----

using SegvHandler = void(int, siginfo_t*, void*);

/// The kernel's sigaction (rt_sigaction(2)), alike on x86-64 and arm64.
struct KernelAction {
  uint64_t handler;  // or SIG_DFL, SIG_IGN
  uint64_t flags;    // SA_*
  uint64_t restorer;
  uint64_t mask;  // bit N - 1 is signal N
};

/// Puts `handler` in front of the program's action, or makes sure that it is there, also where the
/// program has changed its action by a system call without libc. It stays there: a fault may be
/// delivered late. It has the flags and the mask of the program's handler, so that the program's
/// handler is called in the state in which the kernel would call it.
/// False: the program ignores the signal. Its children would no longer do so after exec.
[[nodiscard]] bool PutInFront(SegvHandler* handler);

/// sigaction(SIGSEGV, next, old) of the program, whose own actions are told and changed; `next` and
/// `old` may be null. False: no handler is in front, and the caller asks the kernel. Any thread,
/// signal handlers too; waits while pages are remapped.
[[nodiscard]] bool ChangeSegvAction(const KernelAction* next, KernelAction* old);

/// Does what the program's action does with this signal. Called last by the handler in front.
void ForwardSegv(int signal, siginfo_t* info, void* context);

}  // namespace uroce::memory
