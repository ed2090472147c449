// SPDX-License-Identifier: Apache-2.0
// The paths of live queue pairs, each with its next hop. Workers are told when the next hop of a
// path changes, or the MAC of that next hop. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::nic {

class NetDevice;

/// Identifies a path: from an address of a port to a destination.
struct PathKey {
  const NetDevice* device = nullptr;
  uint16_t vlan_id = 0;  ///< 0: untagged.
  Gid source;
  Gid destination;
  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};

/// One path and its next hop: the destination itself, or a router.
struct FollowedPath {
  PathKey key;
  Gid next_hop;
  Mac mac{};
  std::shared_ptr<const void> use;  ///< Keeps the next hop in the port's own neighbour cache.
};

/// Control thread. A path is followed while the result of Follow is held.
class FollowedPaths {
 public:
  using Holder = std::shared_ptr<FollowedPath>;

  /// Queue pairs with the same key share a path, which takes the newest next hop.
  Holder Follow(const FollowedPath& path);
  /// Returns all paths that are held, and removes the others.
  std::vector<Holder> Held();
  /// Records that `next_hop` has `mac` on this VLAN of this device. Returns the changed paths.
  std::vector<FollowedPath> OnNeighbour(const NetDevice* device, uint16_t vlan_id,
                                        const Gid& next_hop, const Mac& mac);

 private:
  static constexpr size_t kFewPaths = 64;

  std::map<PathKey, std::weak_ptr<FollowedPath>> paths_;
  size_t forget_at_ = kFewPaths;  ///< Number of paths at which dead ones are looked for.
};

}  // namespace uroce::nic
