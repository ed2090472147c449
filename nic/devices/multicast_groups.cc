// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/multicast_groups.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/net/net_device.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxGroups = 4096;  // Each may need an fd per VLAN.

}  // namespace

MulticastGroups::MulticastGroups(const NetDevice& device, KernelGroups::How how,
                                 InterfaceOf interface_of)
    : device_(device), interface_of_(std::move(interface_of)), kernel_(how) {}

absl::Status MulticastGroups::Join(const Gid& group) {
  if (is_stopped_) return absl::CancelledError(absl::StrCat(device_.name(), " was removed"));
  if (!IsMulticast(group)) {
    return absl::InvalidArgumentError(absl::StrCat(FormatAddress(group), " is no multicast group"));
  }
  const auto found = joined_.find(group);
  if (found != joined_.end()) {
    ++found->second;
    return absl::OkStatus();
  }
  if (joined_.size() == kMaxGroups) {
    return absl::ResourceExhaustedError(
        absl::StrCat(device_.name(), ": all ", kMaxGroups, " multicast groups are in use"));
  }
  joined_[group] = 1;
  if (absl::Status status = Refresh(); !status.ok()) {
    joined_.erase(group);
    static_cast<void>(Refresh());
    return status;
  }
  if (listener_) listener_(group, true);
  return absl::OkStatus();
}

void MulticastGroups::Leave(const Gid& group) {
  const auto found = joined_.find(group);
  if (--found->second != 0) return;
  joined_.erase(found);
  static_cast<void>(Refresh());
  if (listener_) listener_(group, false);
}

// Joins groups on all VLANs where the port has an address of the group's family.
absl::Status MulticastGroups::Refresh() {
  if (is_stopped_) return absl::OkStatus();
  std::set<KernelGroups::Place> places;
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> own = device_.gids().At(index);
    if (!own) continue;
    const int ifindex = interface_of_(own->vlan_id);
    if (ifindex == 0) continue;
    for (const auto& [group, joins] : joined_) {
      if (group.is_ipv4() == own->gid.is_ipv4()) places.emplace(ifindex, group);
    }
  }
  return kernel_.Set(places);
}

void MulticastGroups::Stop() {
  is_stopped_ = true;
  listener_ = nullptr;
  static_cast<void>(kernel_.Set({}));
}

}  // namespace uroce::nic
