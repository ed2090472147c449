// SPDX-License-Identifier: Apache-2.0
// Read-only pages, and the handler of SIGSEGV for those who write to them.
#include "verbs-shim/memory/write_window.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <climits>
#include <cstring>

#include "verbs-shim/memory/fault_state.h"
#include "verbs-shim/memory/segv_action.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

/// The window that is open, in memory that a fork child inherits.
struct Window {
  AddressRange pages;
  int protection;
  bool is_open;
};
Window window;

#if defined(__x86_64__)

/// The bits of the error code as the processor's manual names them.
bool WasWriting(const mcontext_t& context) {
  constexpr int64_t kPageFault = 14;
  constexpr int64_t kWrite = 1 << 1, kFetch = 1 << 4, kKey = 1 << 5, kShadowStack = 1 << 6;
  if (context.gregs[REG_TRAPNO] != kPageFault) return false;
  const int64_t error = context.gregs[REG_ERR];
  return (error & kWrite) != 0 && (error & (kFetch | kKey | kShadowStack)) == 0;
}

#else

/// The head of a record behind the registers, and the record with the exception's syndrome
/// (asm/sigcontext.h).
struct ContextRecord {
  uint32_t magic;
  uint32_t size_bytes;
};
struct SyndromeRecord {
  ContextRecord head;
  uint64_t syndrome;
};
constexpr uint32_t kSyndromeMagic = 0x45535201;

/// A data abort of user space by a permission, while writing (ESR_EL1 in the architecture's
/// manual).
bool IsWriteAbort(uint64_t syndrome) {
  constexpr uint64_t kDataAbort = 0x24, kPermission = 0x0c, kWrite = 1 << 6;
  return (syndrome >> 26 & 0x3f) == kDataAbort && (syndrome & 0x3c) == kPermission &&
         (syndrome & kWrite) != 0;
}

bool WasWriting(const mcontext_t& context) {
  constexpr size_t kBytes = sizeof(context.__reserved);
  for (size_t at = 0; at + sizeof(SyndromeRecord) <= kBytes;) {
    SyndromeRecord record;
    memcpy(&record, context.__reserved + at, sizeof(record));
    if (record.head.magic == kSyndromeMagic) return IsWriteAbort(record.syndrome);
    if (record.head.magic == 0 || record.head.size_bytes == 0) break;
    at += record.head.size_bytes;
  }
  return false;
}

#endif

bool IsWriteFault(const siginfo_t& info, const ucontext_t& context) {
  return info.si_code == SEGV_ACCERR && WasWriting(context.uc_mcontext);
}

/// Tries by an atomic or of 0, which changes nothing. The word that it wakes nobody on is ours.
bool IsWritable(FaultState& state, uint64_t address) {
  constexpr uint32_t kOrNothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0);
  return SystemCall(SYS_futex, &state.unused_word, FUTEX_WAKE_OP_PRIVATE, 0, 0,
                    address & ~uint64_t{3}, kOrNothing) >= 0;
}

/// In a child that was forked without any handler while a window was open, by clone(2).
bool RestoreInherited(uint64_t address) {
  if (!window.is_open || !window.pages.Contains(address)) return false;
  SystemCall(SYS_mprotect, window.pages.start, window.pages.end - window.pages.start,
             window.protection);
  return true;
}

/// Waits if the write met a window. True: the write is to be done again. It may have met a window
/// that is closed since, so what counts is whether it would succeed.
bool AwaitWindow(FaultState& state, uint64_t address) {
  for (;;) {
    const uint32_t sequence = __atomic_load_n(&state.sequence, __ATOMIC_ACQUIRE);
    if (sequence % 2 != 0 && state.pages.Contains(address)) {
      AwaitSequence(state, sequence);
      return true;
    }
    if (IsWritable(state, address)) return true;
    if (__atomic_load_n(&state.sequence, __ATOMIC_ACQUIRE) != sequence) continue;
    return sequence == 0 && RestoreInherited(address);
  }
}

void OnSegv(int signal, siginfo_t* info, void* context) {
  FaultState* state = FindFaultState();
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (state != nullptr && IsWriteFault(*info, *static_cast<ucontext_t*>(context)) &&
      AwaitWindow(*state, address)) {
    return;
  }
  ForwardSegv(signal, info, context);
}

void ChangeSequence(FaultState& state) { __atomic_fetch_add(&state.sequence, 1, __ATOMIC_SEQ_CST); }

}  // namespace

bool PrepareWriteWindows() {
  if (!PutInFront(OnSegv)) return false;
  // The rest of a window that this process was forked in.
  if (window.is_open) (void)RestoreInherited(window.pages.start);
  window.is_open = false;
  return true;
}

int64_t OpenWriteWindow(AddressRange pages, int protection) {
  FaultState& state = *FindFaultState();
  window = {.pages = pages, .protection = protection, .is_open = true};
  state.pages = pages;
  ChangeSequence(state);
  const int64_t result =
      SystemCall(SYS_mprotect, pages.start, pages.end - pages.start, protection & ~PROT_WRITE);
  if (result != 0) CloseWriteWindow(false);
  return result;
}

void CloseWriteWindow(bool is_replaced) {
  FaultState& state = *FindFaultState();
  const AddressRange pages = window.pages;
  if (!is_replaced) {
    SystemCall(SYS_mprotect, pages.start, pages.end - pages.start, window.protection);
  }
  window.is_open = false;
  ChangeSequence(state);
  SystemCall(SYS_futex, &state.sequence, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

}  // namespace uroce::memory
