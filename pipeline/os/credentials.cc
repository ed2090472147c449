// SPDX-License-Identifier: Apache-2.0
// The user, the group and the capabilities that a thread acts with (credentials(7),
// capabilities(7)).
#include "pipeline/os/credentials.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace uroce {
namespace {

/// The ID for files of the calling thread: setfsuid and setfsgid return the previous one, and
/// change nothing for an ID that there is not.
uint32_t FileId(long call) { return static_cast<uint32_t>(syscall(call, -1)); }

bool ChangeFileId(long call, uint32_t id) {
  syscall(call, id);
  return FileId(call) == id;
}

// The IDs for files alone: the kernel lets a user schedule each thread whose effective user it is,
// so it could take the daemon's thread its CPU time. Uses system calls, because the functions of
// the C library change all threads. Where nothing changes, no call is made: a user namespace may
// forbid its root to set groups, and a thread that acts for the user already may set nothing.
bool ChangeIds(const Credentials& user) {
  if (FileId(SYS_setfsuid) == user.uid && FileId(SYS_setfsgid) == user.gid) return true;
  return syscall(SYS_setgroups, 0, nullptr) == 0 && ChangeFileId(SYS_setfsgid, user.gid) &&
         ChangeFileId(SYS_setfsuid, user.uid);
}

/// The capabilities of a thread, by system calls: libcap-ng keeps what it reads in its own memory,
/// so that it can be called neither in a signal handler nor for a single change.
struct ThreadCapabilities {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};

  bool Read() { return syscall(SYS_capget, &header, sets) == 0; }
  bool Write() { return syscall(SYS_capset, &header, sets) == 0; }
};

}  // namespace

int KeepCapabilities(uint64_t capabilities) {
  ThreadCapabilities own;
  if (!own.Read()) return errno;
  for (__user_cap_data_struct& set : own.sets) {
    set.permitted &= static_cast<uint32_t>(capabilities);
    set.effective = set.permitted;
    set.inheritable = 0;
    capabilities >>= 32;
  }
  return own.Write() ? 0 : errno;
}

uint64_t EffectiveCapabilities() {
  ThreadCapabilities own;
  if (!own.Read()) return 0;
  return own.sets[0].effective | uint64_t{own.sets[1].effective} << 32;
}

bool HasCapability(int capability) { return (EffectiveCapabilities() >> capability & 1) != 0; }

Credentials Credentials::Own() { return {geteuid(), getegid()}; }

bool ActFor(const Credentials& user, uint64_t capabilities) {
  const bool is_root = geteuid() == 0;
  return (ChangeIds(user) || !is_root) && KeepCapabilities(capabilities) == 0;
}

// With root's ID a thread loses those effective capabilities that concern files, such as
// CAP_LINUX_IMMUTABLE, and gets them back with the ID (capabilities(7)).
FileOwner::FileOwner(uid_t user) : before_(static_cast<uint32_t>(syscall(SYS_setfsuid, user))) {
  ThreadCapabilities own;
  if (before_ == user || !own.Read()) return;
  for (__user_cap_data_struct& set : own.sets) set.effective = set.permitted;
  (void)own.Write();
}

FileOwner::~FileOwner() { syscall(SYS_setfsuid, before_); }

}  // namespace uroce
