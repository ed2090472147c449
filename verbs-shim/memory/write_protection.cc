// SPDX-License-Identifier: Apache-2.0
// Write protection by userfaultfd, and the stack that it is used on.
#include "verbs-shim/memory/write_protection.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>

#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/memory/write_window.h"

namespace uroce::memory {
namespace {

// Names that Debian 12's headers lack.
constexpr uint64_t kFeatureProtectShared = 1 << 12;  // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
constexpr uint64_t kFeatureProtectAbsent = 1 << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr int kUserModeOnly = 1;                     // UFFD_USER_MODE_ONLY

constexpr uint64_t kStackBytes = 64 << 10;
constexpr uint64_t kAllSignals = ~uint64_t{0};

uint64_t stack_base = 0;

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
  return usable && (offered & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
}

uint64_t WantedFeatures(const FaultSupport& support) {
  return (support.protects_absent ? kFeatureProtectAbsent : 0) |
         (support.protects_shared ? kFeatureProtectShared : 0);
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
  fd_ = OpenUserfault(support);
  if (fd_ < 0) return fd_;
  const int64_t result = Protect(support);
  if (result != 0) End(false);
  return result;
}

int64_t WriteProtection::Watch(uint64_t mode) {
  uffdio_register registration = {};
  registration.range = {pages_.start, pages_.end - pages_.start};
  registration.mode = mode;
  return SystemCall(SYS_ioctl, fd_, UFFDIO_REGISTER, &registration);
}

int64_t WriteProtection::Protect(const FaultSupport& support) {
  uint64_t offered;
  int64_t result = Negotiate(fd_, WantedFeatures(support), offered);
  if (result == 0) result = Watch(UFFDIO_REGISTER_MODE_WP);
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
  return Watch(UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING);
}

void WriteProtection::End(bool is_replaced) {
  if (is_window_) CloseWriteWindow(is_replaced);
  is_window_ = false;
  if (fd_ >= 0) SystemCall(SYS_close, fd_);
  fd_ = -1;
}

bool RunOnSwapStack(void (*function)(void*), void* argument) {
  if (SwapStack().start == 0) return false;
  uint64_t old_mask;
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &kAllSignals, &old_mask, sizeof(old_mask));
  CallOnStack(stack_base + kStackBytes, function, argument);
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &old_mask, 0, sizeof(old_mask));
  return true;
}

AddressRange SwapStack() {
  if (stack_base == 0) {
    const int64_t base = SystemCall(SYS_mmap, 0, kStackBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (!IsError(base)) stack_base = static_cast<uint64_t>(base);
  }
  return {stack_base, stack_base + (stack_base == 0 ? 0 : kStackBytes)};
}

}  // namespace uroce::memory
