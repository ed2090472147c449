// SPDX-License-Identifier: Apache-2.0
// The user, the group and the capabilities that a thread acts with (credentials(7),
// capabilities(7)).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace uroce {

/// The user and group that a thread acts for.
struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  /// The credentials of the calling thread.
  static Credentials Own();
};

/// Reduces the effective capabilities of the calling thread to `capabilities` (bits by number), as
/// far as it has them. Returns 0 or an errno. Async-signal-safe.
[[nodiscard]] int KeepCapabilities(uint64_t capabilities);

/// The effective capabilities of the calling thread, as such bits.
uint64_t EffectiveCapabilities();

/// Makes the kernel judge what the calling thread does to files from now on as done by `user`, with
/// those of its capabilities that are in `capabilities`, and with no further groups if `user` is
/// another one. The user can neither signal, trace nor schedule the thread, since it gets the
/// user's IDs for files alone (credentials(7)). A process that is not root's and may not change its
/// user keeps it. False: the system refused; do nothing for the user then.
[[nodiscard]] bool ActFor(const Credentials& user, uint64_t capabilities = 0);

/// Makes `user` the owner of the files that the calling thread makes, for a scope. The thread keeps
/// its capabilities. A process that may not change its user stays the owner.
class FileOwner {
 public:
  explicit FileOwner(uid_t user);
  ~FileOwner();
  FileOwner(const FileOwner&) = delete;
  FileOwner& operator=(const FileOwner&) = delete;

 private:
  const uint32_t before_;
};

/// Whether the calling thread has a capability, as capabilities(7) numbers them (CAP_NET_ADMIN...).
bool HasCapability(int capability);

}  // namespace uroce
