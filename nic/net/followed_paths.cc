// SPDX-License-Identifier: Apache-2.0
#include "nic/net/followed_paths.h"

#include <algorithm>

namespace uroce::nic {

FollowedPaths::Holder FollowedPaths::Follow(const FollowedPath& path) {
  std::weak_ptr<FollowedPath>& known = paths_[path.key];
  Holder holder = known.lock();
  if (holder != nullptr) {
    *holder = path;
    return holder;
  }
  holder = std::make_shared<FollowedPath>(path);
  known = holder;
  if (paths_.size() >= forget_at_) {
    Held();
    forget_at_ = std::max(kFewPaths, 2 * paths_.size());
  }
  return holder;
}

std::vector<FollowedPaths::Holder> FollowedPaths::Held() {
  std::vector<Holder> held;
  std::erase_if(paths_, [&](const auto& path) {
    Holder holder = path.second.lock();
    if (holder == nullptr) return true;
    held.push_back(std::move(holder));
    return false;
  });
  return held;
}

std::vector<FollowedPath> FollowedPaths::OnNeighbour(const NetDevice* device, uint16_t vlan_id,
                                                     const Gid& next_hop, const Mac& mac) {
  std::vector<FollowedPath> moved;
  for (const Holder& held : Held()) {
    if (held->key.device != device || held->key.vlan_id != vlan_id) continue;
    if (held->next_hop != next_hop || held->mac == mac) continue;
    held->mac = mac;
    moved.push_back(*held);
  }
  return moved;
}

}  // namespace uroce::nic
