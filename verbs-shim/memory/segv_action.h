// SPDX-License-Identifier: Apache-2.0
// A handler of SIGSEGV in front of the program's own action, which the program does not see.
#pragma once

#include <csignal>
#include <cstdint>

namespace uroce::memory {

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
/// signal handlers too; waits while pages are swapped.
[[nodiscard]] bool ChangeSegvAction(const KernelAction* next, KernelAction* old);

/// Does what the program's action does with this signal. Called last by the handler in front.
void ForwardSegv(int signal, siginfo_t* info, void* context);

}  // namespace uroce::memory
