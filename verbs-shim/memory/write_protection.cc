// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/write_protection.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/segv_action.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- Read-only pages, and the handler of SIGSEGV for those who write to them ----

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

/// Tries by an atomic or of 0, which changes nothing. The word is ours, and no thread waits on it.
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

// ---- Write protection by userfaultfd, and the stack that it is used on ----

namespace {

// Names that Debian 12's headers lack.
constexpr uint64_t kFeatureProtectShared = 1 << 12;  // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
constexpr uint64_t kFeatureProtectAbsent = 1 << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr uint64_t kFeatureMove = 1 << 16;           // UFFD_FEATURE_MOVE
constexpr int kUserModeOnly = 1;                     // UFFD_USER_MODE_ONLY
constexpr uint64_t kMoveHoles = 1 << 1;              // UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES
struct MoveArguments {                               // struct uffdio_move
  uint64_t to;
  uint64_t from;
  uint64_t length;
  uint64_t mode;
  int64_t moved;  // bytes, or a negative errno
};
constexpr uint64_t kMove = _IOWR(UFFDIO, 5, MoveArguments);
constexpr int kMoveTries =
    100;  // The kernel gives up where it would have to wait for a page's lock.

constexpr uint64_t kStackBytes = 64 << 10;
constexpr uint64_t kAllSignals = ~uint64_t{0};

uint64_t stack_base = 0;

// Used under the lock of the registrations.
constinit KeptFile userfault;
FaultSupport opened_for;

/// Opens a userfaultfd; returns a negative errno when it cannot be opened.
int64_t OpenUserfault(const FaultSupport& support) {
  if (support.origin == FaultSupport::Origin::kDevice) {
    return SystemCall(SYS_ioctl, support.device_fd, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  }
  return SystemCall(SYS_userfaultfd, O_CLOEXEC | (support.kernel_mode ? 0 : kUserModeOnly));
}

int64_t Negotiate(int64_t fd, uint64_t wanted, uint64_t& offered) {
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = wanted;
  const int64_t result = SystemCall(SYS_ioctl, fd, UFFDIO_API, &api);
  offered = api.features;
  return result;
}

/// Sets what the kernel offers. False when this way is closed or cannot write-protect.
bool Probe(FaultSupport& support) {
  const int64_t fd = OpenUserfault(support);
  if (fd < 0) return false;
  uint64_t offered = 0;
  const bool usable = Negotiate(fd, 0, offered) == 0;
  SystemCall(SYS_close, fd);
  support.protects_absent = (offered & kFeatureProtectAbsent) != 0;
  support.protects_shared = (offered & kFeatureProtectShared) != 0;
  support.moves_pages = (offered & kFeatureMove) != 0;
  return usable && (offered & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
}

uint64_t WantedFeatures(const FaultSupport& support) {
  return (support.protects_absent ? kFeatureProtectAbsent : 0) |
         (support.protects_shared ? kFeatureProtectShared : 0) |
         (support.moves_pages ? kFeatureMove : 0);
}

/// Calls `function` on the stack that ends at `top`. Debuggers find the caller's frame by the frame
/// pointer.
[[gnu::noinline]] void CallOnStack(uint64_t top, void (*function)(void*), void* argument) {
#if defined(__x86_64__)
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "callq *%[function]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(argument), [top] "+r"(top), [function] "+r"(function)
      :
      : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "memory", "cc");
#else
  register void* x0 asm("x0") = argument;
  asm volatile(
      "mov x19, sp\n\t"
      "mov sp, %[top]\n\t"
      "blr %[function]\n\t"
      "mov sp, x19"
      : "+r"(x0), [top] "+r"(top), [function] "+r"(function)
      :
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
        "x15", "x16", "x17", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",
        "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
        "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
#endif
}

}  // namespace

FaultSupport ProbeFaultSupport(int device_fd) {
  const FaultSupport ways[] = {
      {.origin = FaultSupport::Origin::kDevice, .kernel_mode = true, .device_fd = device_fd},
      {.origin = FaultSupport::Origin::kSystemCall, .kernel_mode = true},
      {.origin = FaultSupport::Origin::kSystemCall, .kernel_mode = false},
  };
  for (FaultSupport way : ways) {
    if (Probe(way)) return way;
  }
  return {};
}

int64_t WriteProtection::Begin(const FaultSupport& support, AddressRange pages, int protection) {
  pages_ = pages;
  if (support.origin == FaultSupport::Origin::kSignal) {
    const int64_t result = OpenWriteWindow(pages, protection);
    is_window_ = result == 0;
    return result;
  }
  int64_t result = Open(support);
  if (result == 0) result = Protect(support);
  if (result != 0) End(false);
  return result;
}

// The userfaultfd stays open: to close one the kernel looks at each mapping of the process.
int64_t WriteProtection::Open(const FaultSupport& support) {
  fd_ = opened_for == support ? userfault.Find() : -1;
  if (fd_ >= 0) return 0;
  userfault.Close();
  const int64_t fd = OpenUserfault(support);
  if (fd < 0) return fd;
  uint64_t offered;
  const int64_t result = Negotiate(fd, WantedFeatures(support), offered);
  if (!userfault.Keep(fd)) return -EIO;
  if (result != 0) {
    userfault.Close();
    return result;
  }
  opened_for = support;
  fd_ = fd;
  return 0;
}

int64_t WriteProtection::Watch(AddressRange range, uint64_t mode) {
  uffdio_register registration = {};
  registration.range = {range.start, range.end - range.start};
  registration.mode = mode;
  return SystemCall(SYS_ioctl, fd_, UFFDIO_REGISTER, &registration);
}

int64_t WriteProtection::Unwatch(AddressRange range) {
  uffdio_range whole = {range.start, range.end - range.start};
  return SystemCall(SYS_ioctl, fd_, UFFDIO_UNREGISTER, &whole);
}

int64_t WriteProtection::Protect(const FaultSupport& support) {
  int64_t result = Watch(pages_, UFFDIO_REGISTER_MODE_WP);
  if (result != 0) return result;
  const uint64_t length = pages_.end - pages_.start;
  // Older kernels skip absent pages: a first write to one would get lost.
  if (!support.protects_absent) {
    result = SystemCall(SYS_madvise, pages_.start, length, MADV_POPULATE_READ);
    if (result != 0) return result;
  }
  uffdio_writeprotect protection = {};
  protection.range = {pages_.start, length};
  protection.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  return SystemCall(SYS_ioctl, fd_, UFFDIO_WRITEPROTECT, &protection);
}

int64_t WriteProtection::HoldAbsent() {
  if (fd_ < 0) return -EBADF;
  return Watch(pages_, UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING);
}

int64_t WriteProtection::BeginByMoving(const FaultSupport& support, int64_t page_map,
                                       AddressRange pages, uint64_t to) {
  pages_ = pages;
  const uint64_t length = pages.end - pages.start;
  int64_t result = Open(support);
  if (result == 0) result = Watch(pages, UFFDIO_REGISTER_MODE_MISSING);
  if (result == 0) result = Watch({to, to + length}, UFFDIO_REGISTER_MODE_MISSING);
  if (result == 0) result = MoveMapped(page_map, to);
  // Otherwise this thread would wait where a page is absent.
  const int64_t unwatched = Unwatch({to, to + length});
  if (result == 0) result = unwatched;
  if (result == 0) return 0;
  Return(to, length);
  End(false);
  return result;
}

/// Other threads wait where a page is absent, so no page comes between the look and the move.
int64_t WriteProtection::MoveMapped(int64_t page_map, uint64_t to) {
  UsedPages mapped;
  mapped.FindMapped(page_map, pages_);
  return mapped.ForEachRun([this, to](AddressRange run) {
    uint64_t moved = 0;
    return Move(to + (run.start - pages_.start), run.start, run.end - run.start, moved);
  });
}

int64_t WriteProtection::Move(uint64_t to, uint64_t from, uint64_t length, uint64_t& moved) {
  int tries = kMoveTries;
  for (moved = 0; moved < length;) {
    MoveArguments move = {to + moved, from + moved, length - moved, kMoveHoles, 0};
    const int64_t result = SystemCall(SYS_ioctl, fd_, kMove, &move);
    if (result == 0) move.moved = static_cast<int64_t>(length - moved);
    if (move.moved > 0) {
      moved += static_cast<uint64_t>(move.moved);
      tries = kMoveTries;
    } else if (result == -EEXIST) {
      // It is there: Linux 6.18 does not count the pages that it moves in a call after it has met
      // an EAGAIN there, and then finds them in its way. No other thread makes pages at `to`.
      moved += kPageBytes;
    } else if (result != -EAGAIN || --tries == 0) {
      return result == -EAGAIN ? -EBUSY : result;
    } else {
      SystemCall(SYS_sched_yield);
    }
  }
  return 0;
}

void WriteProtection::MoveBack(uint64_t from) { Return(from, pages_.end - pages_.start); }

/// What cannot be moved is copied: only this thread knows of the pages at `from`.
void WriteProtection::Return(uint64_t from, uint64_t length) {
  uint64_t done = 0;
  if (length == 0 || Move(pages_.start, from, length, done) == 0) return;
  const uint64_t rest = from + done;
  while (done < length) {
    uffdio_copy copy = {};
    copy.dst = pages_.start + done;
    copy.src = from + done;
    copy.len = length - done;
    const int64_t result = SystemCall(SYS_ioctl, fd_, UFFDIO_COPY, &copy);
    if (copy.copy > 0) {
      done += static_cast<uint64_t>(copy.copy);
    } else if (result != -EAGAIN) {
      done += kPageBytes;  // A page that was never moved.
    }
  }
  SystemCall(SYS_madvise, rest, from + length - rest, MADV_DONTNEED);
}

int64_t WriteProtection::BeginFill(AddressRange target) {
  return fd_ < 0 ? -EBADF : Watch(target, UFFDIO_REGISTER_MODE_MISSING);
}

int64_t WriteProtection::Fill(uint64_t to, uint64_t from, uint64_t length) const {
  int tries = kMoveTries;
  for (uint64_t done = 0; done < length;) {
    uffdio_copy copy = {};
    copy.dst = to + done;
    copy.src = from + done;
    copy.len = length - done;
    const int64_t result = SystemCall(SYS_ioctl, fd_, UFFDIO_COPY, &copy);
    if (copy.copy > 0) {
      done += static_cast<uint64_t>(copy.copy);
      tries = kMoveTries;
    } else if (result != -EAGAIN || --tries == 0) {
      return result < 0 ? result : -EIO;
    }
  }
  return 0;
}

int64_t WriteProtection::EndFill(AddressRange target) { return Unwatch(target); }

void WriteProtection::End(bool is_replaced) {
  if (is_window_) CloseWriteWindow(is_replaced);
  is_window_ = false;
  if (fd_ >= 0) Wake(is_replaced);
  fd_ = -1;
}

/// The kernel has forgotten a mapping that was replaced, but not the threads that wait for it.
void WriteProtection::Wake(bool is_replaced) {
  uffdio_range range = {pages_.start, pages_.end - pages_.start};
  if ((!is_replaced && Unwatch(pages_) != 0) ||
      SystemCall(SYS_ioctl, fd_, UFFDIO_WAKE, &range) != 0) {
    userfault.Close();
  }
}

void ForgetUserfault() { userfault.Close(); }

bool RunOnRemapStack(void (*function)(void*), void* argument) {
  if (RemapStack().start == 0) return false;
  uint64_t old_mask;
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &kAllSignals, &old_mask, sizeof(old_mask));
  CallOnStack(stack_base + kStackBytes, function, argument);
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &old_mask, 0, sizeof(old_mask));
  return true;
}

AddressRange RemapStack() {
  if (stack_base == 0) {
    const int64_t base = SystemCall(SYS_mmap, 0, kStackBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (!IsError(base)) stack_base = static_cast<uint64_t>(base);
  }
  return {stack_base, stack_base + (stack_base == 0 ? 0 : kStackBytes)};
}

}  // namespace uroce::memory
