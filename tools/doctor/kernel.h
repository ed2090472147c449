// SPDX-License-Identifier: Apache-2.0
// Checks what the kernel gives: its version and the CPU, hugepages, capabilities and devices, and
// limits that a daemon and its programs may reach.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/machine.h"

namespace uroce::tools {

// ---- The kernel's version, and the CPU ----

struct KernelFacts {
  int major = 0;
  int minor = 0;
  int cpus = 0;
  std::string cpu_flags;   ///< As /proc/cpuinfo lists them.
  std::string crc_kernel;  ///< The variant of the ICRC that this machine runs.
  uint64_t page_bytes = 4096;
};

KernelFacts ReadKernel(const Machine& machine);
Findings CheckKernel(const KernelFacts& facts);

// ---- Hugepages ----

/// The hugepages of one size.
struct HugepagePool {
  uint64_t page_bytes = 0;
  uint64_t total = 0;
  uint64_t free = 0;
};

/// Reads /sys/kernel/mm/hugepages.
std::vector<HugepagePool> ReadHugepages(const Machine& machine);
/// `daemon_runs`: the pages in use may then be the daemon's.
Findings CheckHugepages(const std::vector<HugepagePool>& pools, bool daemon_runs);

// ---- Capabilities and devices, for a daemon that this user starts ----

/// A device file, and whether this user may open it.
struct DeviceFile {
  bool exists = false;
  bool usable = false;
};

struct PermissionFacts {
  uint64_t capabilities = 0;  ///< The effective ones, with bits as in capabilities(7).
  DeviceFile userfaultfd;
  DeviceFile tun;
  /// errno of the userfaultfd system call in user mode only; 0 when it works.
  int userfaultfd_errno = 0;
};

/// Reads /proc/self/status and /dev. Makes and closes one userfaultfd.
PermissionFacts ReadPermissions(const Machine& machine);
Findings CheckPermissions(const PermissionFacts& facts);

// ---- Limits that a running daemon and its programs may reach ----

/// The daemon, or a process that registered memory.
struct ProcessFacts {
  pid_t pid = 0;
  std::string name;
  std::optional<uint64_t> maps;        ///< Mappings; absent when this user may not count them.
  std::optional<uint64_t> open_files;  ///< Descriptors.
  std::optional<uint64_t> max_files;   ///< RLIMIT_NOFILE; ~0 is unlimited.
};

struct LimitFacts {
  std::optional<uint64_t> max_map_count;
  std::optional<uint64_t> memlock_bytes;   ///< RLIMIT_MEMLOCK of this user; ~0 is unlimited.
  std::optional<uint64_t> rmem_max_bytes;  ///< Of a socket's receive buffer.
  bool vfio_in_use = false;                ///< A NIC is bound to vfio-pci: its memory is locked.
  std::vector<ProcessFacts> processes;
};

/// `pids` are those of the daemon and of programs with memory regions.
LimitFacts ReadLimits(const Machine& machine, const std::vector<pid_t>& pids);
Findings CheckLimits(const LimitFacts& facts);

}  // namespace uroce::tools
