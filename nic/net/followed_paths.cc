// SPDX-License-Identifier: Apache-2.0
#include "nic/net/followed_paths.h"

#include <algorithm>
#include <set>
#include <utility>

namespace uroce::nic {

FollowedPaths::Holder FollowedPaths::Follow(const FollowedPath& path) {
  macs_.insert_or_assign(HopOf(path), path.mac);
  std::weak_ptr<FollowedPath>& known = paths_[path.key];
  Holder holder = known.lock();
  if (holder != nullptr) {
    *holder = path;
  } else {
    known = holder = std::make_shared<FollowedPath>(path);
  }
  if (std::max(paths_.size(), macs_.size()) >= forget_at_) ForgetUnused();
  return holder;
}

bool FollowedPaths::IsNews(const FollowedPath& path) const {
  const auto known = macs_.find(HopOf(path));
  return known != macs_.end() && known->second != path.mac;
}

bool FollowedPaths::Move(FollowedPath& path, const Gid& next_hop, const Mac& mac) {
  if (path.next_hop == next_hop && path.mac == mac) return false;
  path.next_hop = next_hop;
  path.mac = mac;
  macs_.insert_or_assign(HopOf(path), mac);
  return true;
}

void FollowedPaths::ForgetUnused() {
  std::set<Hop> used;
  for (const Holder& path : Held()) used.insert(HopOf(*path));
  std::erase_if(macs_, [&](const auto& hop) { return !used.contains(hop.first); });
  forget_at_ = std::max(kFewPaths, 2 * paths_.size());
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

}  // namespace uroce::nic
