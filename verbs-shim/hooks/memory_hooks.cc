// SPDX-License-Identifier: Apache-2.0
// Hooks on libc's functions that registered memory depends on: madvise, and those that change or
// tell the action of a signal.
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include <cerrno>

#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/segv_action.h"
#include "verbs-shim/real_library.h"

// ---- madvise ----
// See verbs-shim/memory/memory.h. System calls that programs make without libc are not seen:
// docs/protocol/registered-memory.md, section 1, tells the consequences.

extern "C" {

UROCE_EXPORT int madvise(void* address, size_t length, int advice) noexcept {
  const int64_t result =
      uroce::memory::Advise(reinterpret_cast<uintptr_t>(address), length, advice);
  if (result == 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"

namespace uroce::shim {

// ---- The action of a signal ----
// While a handler of ours is in front of the program's action for SIGSEGV (segv_action.h),
// programs see and change their own. Other signals are libc's matter. Async-signal-safe.

namespace {

using memory::ChangeSegvAction;
using memory::KernelAction;

using Action = int(int, const struct sigaction*, struct sigaction*);
using Simple = sighandler_t(int, sighandler_t);
using Ignore = int(int);

constinit NextFunction<Action> next_sigaction("sigaction");
constinit NextFunction<Simple> next_signal("signal"), next_sysv_signal("__sysv_signal");
constinit NextFunction<Simple> next_sigset("sigset");
constinit NextFunction<Ignore> next_sigignore("sigignore");

// Looked up here, so that no signal handler has to do it later.
__attribute__((constructor)) void LookUpAll() {
  static_cast<void>(next_sigaction.Get());
  static_cast<void>(next_signal.Get());
  static_cast<void>(next_sysv_signal.Get());
  static_cast<void>(next_sigset.Get());
  static_cast<void>(next_sigignore.Get());
}

KernelAction ToKernel(const struct sigaction& action) {
  KernelAction kernel{.handler = reinterpret_cast<uint64_t>(action.sa_handler),
                      .flags = static_cast<uint32_t>(action.sa_flags),
                      .restorer = 0,
                      .mask = 0};
  memcpy(&kernel.mask, &action.sa_mask, sizeof(kernel.mask));
  return kernel;
}

void FromKernel(const KernelAction& kernel, struct sigaction& action) {
  action.sa_handler = reinterpret_cast<sighandler_t>(kernel.handler);
  action.sa_flags = static_cast<int>(kernel.flags);
  action.sa_restorer = reinterpret_cast<void (*)()>(kernel.restorer);
  sigemptyset(&action.sa_mask);
  memcpy(&action.sa_mask, &kernel.mask, sizeof(kernel.mask));
}

/// Sets a handler with `flags`, and no signals blocked but perhaps its own. False: libc is to do
/// it.
bool SetHandler(int signal, sighandler_t handler, uint64_t flags, sighandler_t& before) {
  if (signal != SIGSEGV || handler == SIG_ERR) return false;
  const uint64_t own = uint64_t{1} << (SIGSEGV - 1);
  const KernelAction next{.handler = reinterpret_cast<uint64_t>(handler),
                          .flags = flags,
                          .restorer = 0,
                          .mask = (flags & SA_RESTART) != 0 ? own : 0};
  KernelAction old = {};
  if (!ChangeSegvAction(&next, &old)) return false;
  before = reinterpret_cast<sighandler_t>(old.handler);
  return true;
}

}  // namespace

extern "C" {

int HookSigaction(int, const struct sigaction*, struct sigaction*) __asm__("sigaction");
int HookSigactionToo(int, const struct sigaction*, struct sigaction*) __asm__("__sigaction");
sighandler_t HookSignal(int, sighandler_t) __asm__("signal");
sighandler_t HookBsdSignal(int, sighandler_t) __asm__("bsd_signal");
sighandler_t HookSsignal(int, sighandler_t) __asm__("ssignal");
sighandler_t HookSysvSignal(int, sighandler_t) __asm__("sysv_signal");
sighandler_t HookSysvSignalToo(int, sighandler_t) __asm__("__sysv_signal");
sighandler_t HookSigset(int, sighandler_t) __asm__("sigset");
int HookSigignore(int) __asm__("sigignore");

UROCE_EXPORT int HookSigaction(int signal, const struct sigaction* next, struct sigaction* old) {
  if (signal != SIGSEGV) return next_sigaction.Get()(signal, next, old);
  KernelAction wanted = {}, before;
  if (next != nullptr) wanted = ToKernel(*next);
  if (!ChangeSegvAction(next != nullptr ? &wanted : nullptr, &before)) {
    return next_sigaction.Get()(signal, next, old);
  }
  if (old != nullptr) FromKernel(before, *old);
  return 0;
}
UROCE_EXPORT int HookSigactionToo(int signal, const struct sigaction* next, struct sigaction* old) {
  return HookSigaction(signal, next, old);
}

UROCE_EXPORT sighandler_t HookSignal(int signal, sighandler_t handler) {
  sighandler_t before;
  if (SetHandler(signal, handler, SA_RESTART, before)) return before;
  return next_signal.Get()(signal, handler);
}
UROCE_EXPORT sighandler_t HookBsdSignal(int signal, sighandler_t handler) {
  return HookSignal(signal, handler);
}
UROCE_EXPORT sighandler_t HookSsignal(int signal, sighandler_t handler) {
  return HookSignal(signal, handler);
}

UROCE_EXPORT sighandler_t HookSysvSignal(int signal, sighandler_t handler) {
  sighandler_t before;
  if (SetHandler(signal, handler, SA_RESETHAND | SA_NODEFER, before)) return before;
  return next_sysv_signal.Get()(signal, handler);
}
UROCE_EXPORT sighandler_t HookSysvSignalToo(int signal, sighandler_t handler) {
  return HookSysvSignal(signal, handler);
}

// sigset(3) also unblocks the signal, or blocks it with SIG_HOLD, which leaves its action.
UROCE_EXPORT sighandler_t HookSigset(int signal, sighandler_t handler) {
  sighandler_t before;
  if (handler == SIG_HOLD || !SetHandler(signal, handler, 0, before)) {
    return next_sigset.Get()(signal, handler);
  }
  sigset_t own, mask;
  sigemptyset(&own);
  sigaddset(&own, SIGSEGV);
  if (sigprocmask(SIG_UNBLOCK, &own, &mask) != 0) return SIG_ERR;
  return sigismember(&mask, SIGSEGV) == 1 ? SIG_HOLD : before;
}

UROCE_EXPORT int HookSigignore(int signal) {
  sighandler_t before;
  if (SetHandler(signal, SIG_IGN, 0, before)) return 0;
  return next_sigignore.Get()(signal);
}

}  // extern "C"

}  // namespace uroce::shim
