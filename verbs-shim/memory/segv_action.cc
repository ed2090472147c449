// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/segv_action.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- A page that is wiped on fork ----

namespace {

FaultState* found = nullptr;

}  // namespace

bool MakeFaultState() {
  if (FindFaultState() != nullptr) return true;
  const int64_t page = SystemCall(SYS_mmap, 0, kPageBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (IsError(page)) return false;
  if (SystemCall(SYS_madvise, page, kPageBytes, MADV_WIPEONFORK) != 0) {
    SystemCall(SYS_munmap, page, kPageBytes);
    return false;
  }
  __atomic_store_n(&found, reinterpret_cast<FaultState*>(page), __ATOMIC_RELEASE);
  return true;
}

FaultState* FindFaultState() { return __atomic_load_n(&found, __ATOMIC_ACQUIRE); }

void AwaitSequence(FaultState& state, uint32_t value) {
  SystemCall(SYS_futex, &state.sequence, FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}

// ---- The program's action, kept behind a handler of ours ----

namespace {

constexpr uint64_t kRestorerFlag = 0x04000000;  // SA_RESTORER, which libc's headers lack
constexpr uint64_t kAllSignals = ~uint64_t{0};
const uint64_t kDefault = reinterpret_cast<uint64_t>(SIG_DFL);
const uint64_t kIgnore = reinterpret_cast<uint64_t>(SIG_IGN);

SegvHandler* in_front = nullptr;
// The program's action is one of two, so that a handler never reads one that is being written.
KernelAction actions[2];
uint32_t current = 0;

#if defined(__x86_64__)
// Unwinders and debuggers know the frame of a signal by these two instructions.
extern "C" [[gnu::visibility("hidden")]] void UroceSegvRestorer();
asm(".text\n\t.p2align 4\n\t.type UroceSegvRestorer,@function\n\t.hidden UroceSegvRestorer\n"
    "UroceSegvRestorer:\n\tmovq $15, %rax\n\tsyscall\n\t.size UroceSegvRestorer, "
    ".-UroceSegvRestorer");

void SetRestorer(KernelAction& action) {
  if ((action.flags & kRestorerFlag) != 0 && action.restorer != 0) return;
  action.flags |= kRestorerFlag;
  action.restorer = reinterpret_cast<uint64_t>(&UroceSegvRestorer);
}
#else
/// The kernel has its own.
void SetRestorer(KernelAction& action) {
  if (action.restorer == 0) action.flags &= ~kRestorerFlag;
}
#endif

int64_t Exchange(const KernelAction* next, KernelAction* old) {
  return SystemCall(SYS_rt_sigaction, SIGSEGV, next, old, sizeof(old->mask));
}

KernelAction ProgramsAction() { return actions[__atomic_load_n(&current, __ATOMIC_ACQUIRE)]; }

void SetProgramsAction(const KernelAction& action) {
  const uint32_t other = 1 - current;
  actions[other] = action;
  __atomic_store_n(&current, other, __ATOMIC_RELEASE);
}

bool IsHandler(const KernelAction& action) {
  return action.handler != kDefault && action.handler != kIgnore;
}

/// What the kernel is to do while the program's action is `action`. SA_RESETHAND is done by
/// ForwardSegv(): it must not remove the handler in front.
KernelAction Disguised(const KernelAction& action) {
  if (action.handler == kIgnore) return action;
  KernelAction front = action;
  if (action.handler == kDefault) {
    front.flags = SA_ONSTACK;
    front.mask = 0;
  }
  front.handler = reinterpret_cast<uint64_t>(in_front);
  front.flags = (front.flags & ~uint64_t{SA_RESETHAND}) | SA_SIGINFO;
  SetRestorer(front);
  return front;
}

/// Held with all signals blocked, since signal handlers take it too.
class ActionLock {
 public:
  explicit ActionLock(FaultState& state) : state_(state) {
    SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &kAllSignals, &mask_, sizeof(mask_));
    while (__atomic_exchange_n(&state_.action_lock, 1, __ATOMIC_ACQUIRE) != 0) {
      SystemCall(SYS_sched_yield);
    }
  }
  ~ActionLock() {
    __atomic_store_n(&state_.action_lock, 0, __ATOMIC_RELEASE);
    SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_, 0, sizeof(mask_));
  }
  ActionLock(const ActionLock&) = delete;
  ActionLock& operator=(const ActionLock&) = delete;

 private:
  FaultState& state_;
  uint64_t mask_ = 0;
};

/// Takes over what the program has said to the kernel itself, if it has.
bool Adopt() {
  KernelAction now = {};
  if (Exchange(nullptr, &now) != 0) return false;
  if (now.handler != reinterpret_cast<uint64_t>(in_front)) SetProgramsAction(now);
  const KernelAction front = Disguised(ProgramsAction());
  return front.handler != kIgnore && Exchange(&front, nullptr) == 0;
}

/// The program's action for a signal that is being handled; SA_RESETHAND ends it.
KernelAction TakeAction() {
  const KernelAction action = ProgramsAction();
  FaultState* state = FindFaultState();
  if (!IsHandler(action) || (action.flags & SA_RESETHAND) == 0 || state == nullptr) return action;
  const ActionLock lock(*state);
  const KernelAction taken = ProgramsAction();
  if (!IsHandler(taken) || (taken.flags & SA_RESETHAND) == 0) return taken;
  KernelAction reset = taken;
  reset.handler = kDefault;
  SetProgramsAction(reset);
  const KernelAction front = Disguised(reset);
  Exchange(&front, nullptr);
  return taken;
}

/// The kernel does it: a fault comes again when the handler returns, with its registers; a signal
/// that a process sent is sent again, and delivered then.
void EndAsByDefault(int signal, siginfo_t* info) {
  const KernelAction action{.handler = kDefault, .flags = 0, .restorer = 0, .mask = 0};
  Exchange(&action, nullptr);
  if (info->si_code > 0) return;
  SystemCall(SYS_rt_tgsigqueueinfo, SystemCall(SYS_getpid), SystemCall(SYS_gettid), signal, info);
}

}  // namespace

bool PutInFront(SegvHandler* handler) {
  if (!MakeFaultState()) return false;
  const ActionLock lock(*FindFaultState());
  const bool is_first = in_front == nullptr;
  __atomic_store_n(&in_front, handler, __ATOMIC_RELEASE);
  const bool is_done = Adopt();
  if (is_first && !is_done) __atomic_store_n(&in_front, nullptr, __ATOMIC_RELEASE);
  return is_done;
}

bool ChangeSegvAction(const KernelAction* next, KernelAction* old) {
  FaultState* state = FindFaultState();
  if (state == nullptr || __atomic_load_n(&in_front, __ATOMIC_ACQUIRE) == nullptr) return false;
  for (;;) {
    const uint32_t sequence = __atomic_load_n(&state->sequence, __ATOMIC_ACQUIRE);
    if (sequence % 2 != 0) {
      AwaitSequence(*state, sequence);
      continue;
    }
    const ActionLock lock(*state);
    if (__atomic_load_n(&state->sequence, __ATOMIC_ACQUIRE) % 2 != 0) continue;
    KernelAction now = {};
    if (Exchange(nullptr, &now) == 0 && now.handler != reinterpret_cast<uint64_t>(in_front)) {
      SetProgramsAction(now);
    }
    const KernelAction before = ProgramsAction();
    if (next != nullptr) {
      SetProgramsAction(*next);
      const KernelAction front = Disguised(*next);
      Exchange(&front, nullptr);
    }
    if (old != nullptr) *old = before;
    return true;
  }
}

void ForwardSegv(int signal, siginfo_t* info, void* context) {
  const KernelAction action = TakeAction();
  if (IsHandler(action)) {
    return reinterpret_cast<SegvHandler*>(action.handler)(signal, info, context);
  }
  if (action.handler == kIgnore && info->si_code <= 0) return;
  EndAsByDefault(signal, info);
}

}  // namespace uroce::memory
