// SPDX-License-Identifier: Apache-2.0
// The user and group that a thread acts for (credentials(7)).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace uroce {

struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  /// The calling thread's own.
  static Credentials Own();
};

/// Leaves the calling thread those of its capabilities that are in `capabilities` (bits by number),
/// in effect. Returns 0 or an errno. Async-signal-safe.
[[nodiscard]] int KeepCapabilities(uint64_t capabilities);

/// From here on what the calling thread does is judged by the kernel as done by this user, if it is
/// another one then without further groups, and by those of the capabilities that are in
/// `capabilities`. Real and saved user IDs stay, so that the user can neither signal nor trace the
/// thread: that would reach the whole process. Where the process is not root's and may not change
/// its user, it keeps that. False: the system refused; nothing is to be done for the user.
[[nodiscard]] bool ActFor(const Credentials& user, uint64_t capabilities = 0);

}  // namespace uroce
