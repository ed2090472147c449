// SPDX-License-Identifier: Apache-2.0
// Multicast groups that the kernel joins for a port: it sends IGMP and MLD, and lets their frames
// through the filter of its interface.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "nic/base/fd.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// The groups of one port. Control thread.
class KernelGroups {
 public:
  enum class How : uint8_t {
    kJoin,    ///< The kernel is the port's host.
    kFilter,  ///< The daemon is: the interface only has to let the frames in.
  };
  explicit KernelGroups(How how) : how_(how) {}

  /// A group on an interface, by its index.
  using Place = std::pair<int, Gid>;
  /// Joins what is wanted and leaves what is not. Errors: Unavailable, where the kernel refuses
  /// some, which is tried again by the next call; all others are joined.
  absl::Status Set(const std::set<Place>& wanted);

 private:
  const How how_;
  std::map<Place, Fd> joined_;
};

}  // namespace uroce::nic
