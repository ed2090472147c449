// SPDX-License-Identifier: Apache-2.0
// What the daemon may do once its ports are open: of root's capabilities those alone that it goes
// on using, and no system call that starts programs or changes the machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Bits 1 << CAP_... of what a daemon of this configuration uses after its start:
/// - CAP_SETUID, CAP_SETGID: threads that touch a program's memory, or open files for it, act for
///   its user (nic/base/credentials.h). CAP_CHECKPOINT_RESTORE: the latter look behind its
///   mappings (nic/control/lent_file.h).
/// - CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK: a port beside the kernel has neighbours looked for,
///   is in groups, and is opened again when its interface is replaced, with rings in locked memory.
///   One on a PCI device maps memory for it, and may have a kernel driver beside it.
/// - CAP_BPF: the program of af_xdp. CAP_NET_ADMIN alone: a TAP.
/// - CAP_DAC_OVERRIDE: where `socket_is_elsewhere`, the directory of the socket is another user's.
uint64_t CapabilitiesInUse(const Config& config, bool socket_is_elsewhere);

/// Whether the directory that holds `path` belongs to another user than the daemon's.
bool IsInAnothersDirectory(const std::string& path);

/// Leaves every thread of the process at most `capabilities` (bits as above), and no way to gain
/// any: no_new_privs, and a filter of system calls under which execve, ptrace, mount, unshare,
/// init_module and their like fail with EPERM. Threads that start later inherit all of it. The
/// calls that remain cost what they did.
/// Errors: one line; a thread that does not take part within a second, a kernel without seccomp.
absl::Status LimitPrivileges(uint64_t capabilities);

}  // namespace uroce::nic
