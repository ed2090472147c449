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
  /// Whether a path by the same next hop has got another MAC than this one. Looks at no path.
  bool IsNews(const FollowedPath& path) const;
  /// Gives a held path its next hop and MAC. False: it has both already.
  bool Move(FollowedPath& path, const Gid& next_hop, const Mac& mac);
  /// Returns all paths that are held, and removes the others.
  std::vector<Holder> Held();

 private:
  static constexpr size_t kFewPaths = 64;
  /// A next hop on a VLAN of a device.
  struct Hop {
    const NetDevice* device = nullptr;
    uint16_t vlan_id = 0;
    Gid address;
    friend auto operator<=>(const Hop&, const Hop&) = default;
  };

  static Hop HopOf(const FollowedPath& path) {
    return {path.key.device, path.key.vlan_id, path.next_hop};
  }
  void ForgetUnused();

  std::map<PathKey, std::weak_ptr<FollowedPath>> paths_;
  std::map<Hop, Mac> macs_;       ///< That a path by the hop got last.
  size_t forget_at_ = kFewPaths;  ///< Number of paths or hops at which unused ones are looked for.
};

}  // namespace uroce::nic
