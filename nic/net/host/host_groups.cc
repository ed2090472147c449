// SPDX-License-Identifier: Apache-2.0
// The multicast groups of a host, and its reports of them.
#include <algorithm>
#include <ranges>

#include "nic/net/host/host.h"
#include "nic/net/host/igmp.h"
#include "nic/net/host/mld.h"

namespace uroce::nic {
namespace {

// A report may be lost, so it is repeated (RFC 3376, 8.11; RFC 3810, 9.11).
constexpr Nanos kRepeatDelay{1'000'000'000};
// This number fits into a frame of either family.
constexpr size_t kMaxRecords = 64;

}  // namespace

void Host::Join(const Gid& group, Nanos now) {
  if (!groups_.insert(group).second || !link_up_) return;
  ForgetOldRouter(now);
  for (const uint16_t vlan_id : Vlans()) Report(vlan_id, {group}, Membership::kJoined);
  report_at_ = std::min(report_at_, now + kRepeatDelay);
}

void Host::Leave(const Gid& group) {
  if (groups_.erase(group) == 0 || !link_up_) return;
  for (const uint16_t vlan_id : Vlans()) Report(vlan_id, {group}, Membership::kLeft);
}

std::set<uint16_t> Host::Vlans() const {
  std::set<uint16_t> vlans;
  for (const InterfaceAddress& address : own_) vlans.insert(address.vlan_id);
  return vlans;
}

bool Host::HasAddress(uint16_t vlan_id, bool is_ipv4) const {
  return std::ranges::any_of(own_, [&](const InterfaceAddress& address) {
    return address.vlan_id == vlan_id && address.gid.is_ipv4() == is_ipv4;
  });
}

void Host::ReportMemberships(Nanos now) {
  report_at_ = kNever;
  ForgetOldRouter(now);
  for (const uint16_t vlan_id : Vlans()) ReportMemberships(vlan_id);
}

void Host::ForgetOldRouter(Nanos now) {
  if (now >= old_igmp_until_) old_igmp_until_ = Nanos(0);
}

void Host::ReportMemberships(uint16_t vlan_id) {
  std::set<Gid> groups = groups_;
  for (const InterfaceAddress& address : own_) {
    if (address.gid.is_ipv4() || address.vlan_id != vlan_id) continue;
    groups.insert(SolicitedNodeGroup(address.gid));
  }
  std::vector<Gid> some;
  for (const bool is_ipv4 : {true, false}) {
    for (const Gid& group : groups) {
      if (group.is_ipv4() == is_ipv4) some.push_back(group);
      if (some.size() < kMaxRecords) continue;
      Report(vlan_id, some, Membership::kJoined);
      some.clear();
    }
    Report(vlan_id, some, Membership::kJoined);
    some.clear();
  }
}

void Host::Report(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership) {
  if (groups.empty() || !HasAddress(vlan_id, groups.front().is_ipv4())) return;
  if (groups.front().is_ipv4()) {
    ReportIpv4(vlan_id, groups, membership);
  } else {
    ReportIpv6(vlan_id, groups, membership);
  }
}

void Host::ReportIpv4(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership) {
  const Gid source = SourceFor(vlan_id, groups.front()).value_or(Ipv4Gid(0));
  const Link link{mac_, {}, vlan_id};
  if (old_igmp_until_ == Nanos(0)) {
    frames_.push_back(MakeIgmpReport(source, groups, membership, link));
    return;
  }
  for (const Gid& group : groups) {
    frames_.push_back(MakeIgmpReport2(source, group, membership, link));
  }
}

void Host::ReportIpv6(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership) {
  Gid source;  // :: until there is a link-local address (RFC 3590, 4).
  for (const AddressClaim& claim : claims_) {
    const InterfaceAddress& address = claim.address();
    const bool usable = claim.state() == AddressClaim::State::kUsable;
    if (usable && address.vlan_id == vlan_id && IsLinkLocal(address.gid)) source = address.gid;
  }
  frames_.push_back(MakeListenerReport(source, groups, membership, {mac_, {}, vlan_id}));
}

}  // namespace uroce::nic
