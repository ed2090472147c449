// SPDX-License-Identifier: Apache-2.0
// Multicast groups that the kernel joins for a port: it sends IGMP and MLD, and accepts the groups'
// frames in the filter of its interface.
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
    kFilter,  ///< The daemon is: the interface only accepts the frames.
  };
  explicit KernelGroups(How how) : how_(how) {}

  /// A group on an interface, by its index.
  using Place = std::pair<int, Gid>;
  /// Joins the groups in `wanted` and leaves all others. Errors: Unavailable when the kernel
  /// refuses some; the next call tries these again. All others are joined.
  absl::Status Set(const std::set<Place>& wanted);

 private:
  const How how_;
  std::map<Place, Fd> joined_;
};

}  // namespace uroce::nic
