// SPDX-License-Identifier: Apache-2.0
// The multicast groups of a host, and the messages that report them to routers and switches: IGMP
// for IPv4 and MLD for IPv6. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "nic/net/host/address_claim.h"
#include "nic/net/host/frame.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

enum class Membership : uint8_t { kJoined, kLeft };

// ---- IGMP: version 3 (RFC 3376) and, beside an older router, version 2 (RFC 2236) ----

/// A report of version 3. `source`: the sender's address, or 0.0.0.0 while it has none.
Frame MakeIgmpReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                     const Link& link);
/// A report of version 2, or a message that the host leaves the group.
Frame MakeIgmpReport2(const Gid& source, const Gid& group, Membership membership, const Link& link);

/// Checks a query, general or for a group. `is_old`: it comes from a router that does not know
/// version 3.
[[nodiscard]] FrameResult CheckIgmpQuery(const IpView& ip, bool& is_old);

// ---- multicast listener discovery, version 2 (RFC 3810) ----

/// A report that the sender has joined or left `groups`. `source`: its link-local address, or ::
/// while it has none (RFC 3590).
Frame MakeListenerReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                         const Link& link);

/// Checks a query of any version, general or for a group. The caller has checked the checksum.
[[nodiscard]] FrameResult CheckListenerQuery(const IpView& ip);

// ---- memberships ----

/// The groups that a host has joined, beside those of neighbour discovery, and the reports that are
/// due. A host is a member on every VLAN where it has an address of the group's family. Part of a
/// Host, whose claims say which addresses there are.
class GroupMembership {
 public:
  /// Puts reports behind `frames`. All arguments outlive the object.
  GroupMembership(const Mac& mac, const AddressClaims& claims, std::deque<Frame>& frames)
      : mac_(mac), claims_(claims), frames_(frames) {}

  /// When the link comes up, all groups are reported.
  void OnLink(bool up, Nanos now);
  void Join(const Gid& group, Nanos now);
  void Leave(const Gid& group);
  /// Queries of routers and switches.
  FrameResult OnIgmp(const IpView& ip, Nanos now);
  FrameResult OnListenerQuery(const IpView& ip, Nanos now);

  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return report_at_; }

 private:
  std::set<uint16_t> Vlans() const;
  bool HasAddress(uint16_t vlan_id, bool is_ipv4) const;
  void ReportAll(Nanos now);
  void ReportAll(uint16_t vlan_id);
  void ForgetOldRouter(Nanos now);
  void Report(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership);
  void ReportIpv4(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership);
  void ReportIpv6(uint16_t vlan_id, const std::vector<Gid>& groups, Membership membership);

  const Mac& mac_;
  const AddressClaims& claims_;
  std::deque<Frame>& frames_;
  bool link_up_ = false;
  std::set<Gid> groups_;  ///< Joined by Join.
  Nanos report_at_ = kNever;
  Nanos old_igmp_until_{0};  ///< Until then an older router gets reports of version 2.
};

}  // namespace uroce::nic
