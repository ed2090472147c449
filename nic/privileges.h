// SPDX-License-Identifier: Apache-2.0
// Limits the privileges of the daemon once its ports are open: it keeps the capabilities of root
// that it still uses, and no system call that starts programs or changes the machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// The capabilities that a daemon of this configuration uses after its start, as bits 1 << CAP_...:
/// - CAP_SETUID, CAP_SETGID: threads that touch a program's memory, or open files for it, act as
///   its user (pipeline/os/credentials.h). CAP_CHECKPOINT_RESTORE: threads that open files look
///   behind the program's mappings (nic/control/memory_socket.h).
/// - CAP_LINUX_IMMUTABLE: programs can free no pages of their queues (pipeline/os/shared_memory.h).
/// - CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK: a port beside the kernel asks for neighbours, joins
///   groups, and is reopened, with rings in locked memory, when its interface is replaced. A port
///   on a PCI device maps memory for it, and may have a kernel driver beside it.
/// - CAP_BPF: the eBPF program of af_xdp; that of IngressDrop is loaded before. A TAP needs
///   CAP_NET_ADMIN alone.
/// - CAP_DAC_OVERRIDE: if `socket_is_elsewhere`, the directory of the socket is another user's.
uint64_t CapabilitiesInUse(const Config& config, bool socket_is_elsewhere);

/// Whether the directory that holds `path` belongs to another user than the daemon's.
bool IsInAnothersDirectory(const std::string& path);

/// Limits every thread of the process to at most `capabilities` (bits as above), and sets
/// no_new_privs so that none can be gained. A filter of system calls makes execve, ptrace, mount,
/// unshare, init_module and similar calls fail with EPERM. Threads that start later inherit all of
/// this. Other calls do not become slower. Errors: one line, when a thread that has a capability
/// neither takes part nor ends within 30 seconds, or the kernel lacks seccomp.
absl::Status LimitPrivileges(uint64_t capabilities);

}  // namespace uroce::nic
