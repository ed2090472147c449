// SPDX-License-Identifier: Apache-2.0
#include "nic/privileges.h"

#include <linux/capability.h>
#include <seccomp.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_arguments.h"
#include "nic/settings/port_kind.h"
#include "pipeline/os/credentials.h"

namespace uroce::nic {
namespace {

// One look a second: on a busy machine a thread may not run for seconds.
constexpr int kThreadLooks = 30;

// System calls that no part of the daemon makes, and that would help an attacker.
constexpr const char* kRefusedCalls[] = {
    // Programs and other processes.
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp",
    // Other views of the machine.
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at",
    // The kernel and the machine.
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "iopl", "ioperm", "modify_ldt", "acct", "quotactl", "syslog",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    // Kernel interfaces that the daemon does not use.
    "io_uring_setup", "perf_event_open", "add_key", "request_key", "keyctl", "personality",
    "uselib", "vhangup", "lookup_dcookie"};

constexpr uint64_t Bit(int capability) { return uint64_t{1} << capability; }

/// The steps of each thread for itself. They also run in a signal handler: system calls only.
struct Shedding {
  uint64_t capabilities = 0;
  sem_t done = {};
  int error = 0;
};
Shedding g_shedding;

void ShedInThisThread(int /*signal*/) {
  const int before = errno;
  if (const int error = KeepCapabilities(g_shedding.capabilities); error != 0) {
    g_shedding.error = error;
  }
  sem_post(&g_shedding.done);
  errno = before;
}

/// Whether `thread` has dropped its capabilities, or has ended, before the patience ends.
bool AwaitThread(pid_t thread) {
  for (int looks = 0; looks < kThreadLooks; ++looks) {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;
    int result = 0;
    while ((result = sem_timedwait(&g_shedding.done, &until)) != 0 && errno == EINTR) {
    }
    if (result == 0) return true;
    if (syscall(SYS_tgkill, getpid(), thread, 0) == 0) continue;
    sem_trywait(&g_shedding.done);  // It may have ended right behind its handler.
    return true;
  }
  return false;
}

std::set<pid_t> OtherThreads() {
  std::set<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    pid_t thread = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &thread) && thread != gettid()) {
      threads.insert(thread);
    }
  }
  return threads;
}

/// Whether a thread has a capability that it could use or pass to a program that it starts.
bool HasCapabilities(pid_t thread) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = thread};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return true;  // For all that is known.
  return std::ranges::any_of(sets, [](const __user_cap_data_struct& set) {
    return (set.permitted | set.effective | set.inheritable) != 0;
  });
}

// Capabilities belong to threads, and DPDK has started threads: each drops its own in a signal
// handler. A thread that starts meanwhile is found by the next pass. One that has none is not
// asked: it cannot gain any, and one of an emulator or of a preloaded library may handle no signal.
absl::Status ShedInOtherThreads() {
  struct sigaction action = {};
  struct sigaction former = {};
  action.sa_handler = ShedInThisThread;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGRTMIN, &action, &former) != 0) return absl::ErrnoToStatus(errno, "sigaction");
  std::set<pid_t> done;
  absl::Status status;
  for (size_t before = 1; status.ok() && done.size() != before;) {
    before = done.size();
    for (const pid_t thread : OtherThreads()) {
      if (!done.insert(thread).second || !HasCapabilities(thread)) continue;
      if (syscall(SYS_tgkill, getpid(), thread, SIGRTMIN) != 0) continue;  // It has ended.
      if (!AwaitThread(thread)) {
        status = absl::InternalError(absl::StrCat("thread ", thread, " keeps its capabilities"));
        break;
      }
    }
  }
  if (status.ok()) sigaction(SIGRTMIN, &former, nullptr);
  if (status.ok() && g_shedding.error != 0) return absl::ErrnoToStatus(g_shedding.error, "capset");
  return status;
}

absl::Status RefuseCalls() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                seccomp_release);
  if (!filter) return absl::InternalError("no filter of system calls: out of memory");
  for (const char* name : kRefusedCalls) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) continue;  // Unknown to this libseccomp.
    const int result = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0);
    // A call that this architecture does not have needs no rule.
    if (result != 0 && result != -EDOM) return absl::ErrnoToStatus(-result, name);
  }
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  seccomp_attr_set(filter.get(), SCMP_FLTATR_API_SYSRAWRC, 1);  // The kernel's own error.
  const int result = seccomp_load(filter.get());
  if (result == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the kernel takes no filter of system calls (seccomp: ", std::strerror(-result),
                   "): --keep-privileges starts without one, and gives no capability up"));
}

uint64_t OfPort(const PortKind& kind) {
  const uint64_t used = Bit(CAP_NET_ADMIN) | Bit(CAP_NET_RAW) | Bit(CAP_IPC_LOCK);
  if (std::holds_alternative<drivers::KernelInterface>(kind)) return used;
  const auto* const dpdk = std::get_if<drivers::DpdkDevice>(&kind);
  if (dpdk == nullptr) return 0;
  const drivers::DeviceArguments& arguments = dpdk->arguments;
  if (arguments.Interface().empty() && !arguments.IsPci()) return 0;
  return arguments.rules().wake_up == drivers::WakeUp::kXdpSocket ? used | Bit(CAP_BPF) : used;
}

}  // namespace

uint64_t CapabilitiesInUse(const Config& config, bool socket_is_elsewhere) {
  uint64_t used =
      Bit(CAP_SETUID) | Bit(CAP_SETGID) | Bit(CAP_CHECKPOINT_RESTORE) | Bit(CAP_LINUX_IMMUTABLE);
  if (socket_is_elsewhere) used |= Bit(CAP_DAC_OVERRIDE);
  for (const DeviceConfig& device : config.devices) {
    used |= OfPort(device.kind);
    if (device.wire_interface || !device.exception.empty()) used |= Bit(CAP_NET_ADMIN);
  }
  return used;
}

bool IsInAnothersDirectory(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::absolute(path).parent_path();
  struct stat status = {};
  return stat(directory.c_str(), &status) == 0 && status.st_uid != geteuid();
}

absl::Status LimitPrivileges(uint64_t capabilities) {
  g_shedding.capabilities = capabilities;
  g_shedding.error = 0;
  if (sem_init(&g_shedding.done, 0, 0) != 0) return absl::ErrnoToStatus(errno, "sem_init");
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "no_new_privs");
  }
  if (absl::Status status = ShedInOtherThreads(); !status.ok()) return status;
  if (const int error = KeepCapabilities(capabilities); error != 0) {
    return absl::ErrnoToStatus(error, "capset");
  }
  return RefuseCalls();
}

}  // namespace uroce::nic
