// SPDX-License-Identifier: Apache-2.0
// The swap of private pages for a memfd.
#include "verbs-shim/memory/swap.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

// Names that Debian 12's headers lack.
constexpr uint64_t kFeatureProtectAbsent = 1 << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr int kUserModeOnly = 1;                     // UFFD_USER_MODE_ONLY

constexpr uint64_t kStackBytes = 64 << 10;
constexpr uint64_t kAllSignals = ~uint64_t{0};

uint64_t stack_base = 0;

/// An open userfaultfd; negative errno when it could not be opened.
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

/// Fills in what the kernel offers. False when this way is closed or cannot write-protect.
bool Probe(FaultSupport& support) {
  const int64_t fd = OpenUserfault(support);
  if (fd < 0) return false;
  uint64_t offered = 0;
  const bool usable = Negotiate(fd, 0, offered) == 0;
  SystemCall(SYS_close, fd);
  support.protects_absent = (offered & kFeatureProtectAbsent) != 0;
  return usable && (offered & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
}

/// One swap: the steps, in order. Only raw system calls, and nothing written but this stack.
class Swap {
 public:
  Swap(const FaultSupport& support, const SwapRequest& request)
      : support_(support), request_(request) {}

  int64_t Run() {
    const int64_t fd = OpenUserfault(support_);
    if (fd < 0) return fd;
    const int64_t result = RunWith(fd);
    // Closing wakes every thread that waits in a write fault, after success and failure alike.
    SystemCall(SYS_close, fd);
    return result;
  }

 private:
  int64_t RunWith(int64_t fd) {
    int64_t result = Protect(fd);
    if (result == 0) result = CopyOut();
    if (result == 0) result = MapOver();
    return result;
  }

  int64_t Protect(int64_t fd) {
    uint64_t offered;
    const uint64_t wanted = support_.protects_absent ? kFeatureProtectAbsent : 0;
    int64_t result = Negotiate(fd, wanted, offered);
    if (result != 0) return result;
    uffdio_register registration = {};
    registration.range = {request_.pages.start, Length()};
    registration.mode = UFFDIO_REGISTER_MODE_WP;
    result = SystemCall(SYS_ioctl, fd, UFFDIO_REGISTER, &registration);
    if (result != 0) return result;
    // Older kernels skip pages that are not there: a first write to one would get lost.
    if (!support_.protects_absent) {
      result = SystemCall(SYS_madvise, request_.pages.start, Length(), MADV_POPULATE_READ);
      if (result != 0) return result;
    }
    uffdio_writeprotect protection = {};
    protection.range = {request_.pages.start, Length()};
    protection.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    return SystemCall(SYS_ioctl, fd, UFFDIO_WRITEPROTECT, &protection);
  }

  int64_t CopyOut() {
    for (uint64_t done = 0; done < Length();) {
      const int64_t written = SystemCall(SYS_pwrite64, request_.memfd, request_.pages.start + done,
                                         Length() - done, done);
      if (written <= 0) return written == 0 ? -EIO : written;
      done += static_cast<uint64_t>(written);
    }
    return 0;
  }

  int64_t MapOver() {
    const int64_t result = SystemCall(SYS_mmap, request_.pages.start, Length(), request_.protection,
                                      MAP_SHARED | MAP_FIXED, request_.memfd, 0);
    return IsError(result) ? result : 0;
  }

  uint64_t Length() const { return request_.pages.end - request_.pages.start; }

  const FaultSupport& support_;
  const SwapRequest& request_;
};

struct SwapCall {
  const FaultSupport* support;
  const SwapRequest* request;
  int64_t result;
};

void RunSwap(void* argument) {
  auto* call = static_cast<SwapCall*>(argument);
  int64_t result = Swap(*call->support, *call->request).Run();
  call->result = result;
}

/// Calls `function` on the stack that ends at `top`. The frame pointer keeps the caller's frame
/// findable for debuggers.
[[gnu::noinline, gnu::optimize("no-omit-frame-pointer")]] void CallOnStack(uint64_t top,
                                                                           void (*function)(void*),
                                                                           void* argument) {
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

int SwapPages(const FaultSupport& support, const SwapRequest& request) {
  if (support.origin == FaultSupport::Origin::kNone) return ENOSYS;
  if (SwapStack().Meets(request.pages) || stack_base == 0) return ENOMEM;
  SwapCall call{.support = &support, .request = &request, .result = -EFAULT};
  uint64_t old_mask;
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &kAllSignals, &old_mask, sizeof(old_mask));
  CallOnStack(stack_base + kStackBytes, RunSwap, &call);
  SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, &old_mask, 0, sizeof(old_mask));
  // One fault per page of a later first write would cost twice as much (0.13 against 0.28 ms/MB).
  if (call.result == 0) {
    const uint64_t length = request.pages.end - request.pages.start;
    SystemCall(SYS_madvise, request.pages.start, length, MADV_POPULATE_READ);
  }
  return static_cast<int>(-call.result);
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
