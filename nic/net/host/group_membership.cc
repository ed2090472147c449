// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/group_membership.h"

#include <algorithm>
#include <utility>

#include "nic/net/address.h"
#include "nic/net/host/frame.h"
#include "nic/net/host/neighbour_messages.h"

namespace uroce::nic {
namespace {

// The answers of many hosts to one query are spread in time (RFC 3810, 6.2); this host sends one
// answer to all queries within this delay.
constexpr Nanos kReportDelay{100'000'000};
// How long an older router is remembered (RFC 3376, 8.12, with the usual intervals).
constexpr Nanos kOldRouterTime{260'000'000'000};
// A report may be lost, so it is repeated (RFC 3376, 8.11; RFC 3810, 9.11).
constexpr Nanos kRepeatDelay{1'000'000'000};
// This number fits into a frame of either family.
constexpr size_t kMaxRecords = 64;

constexpr uint8_t kLinkTtl = 1;
constexpr uint8_t kQuery = 0x11;
constexpr uint8_t kReport2 = 0x16;
constexpr uint8_t kLeave2 = 0x17;
constexpr uint8_t kReport3 = 0x22;
constexpr uint8_t kChangeToInclude = 3;
constexpr uint8_t kChangeToExclude = 4;
constexpr size_t kLeastQuery3Bytes = 12;
// 224.0.0.22: all IGMPv3 routers; 224.0.0.2: all routers, the destination of leave messages of
// version 2.
constexpr Gid kAllIgmp3Routers{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 22}};
constexpr Gid kAllRouters{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 2}};

template <typename Layout>
void Append(Frame& message, const Layout& layout) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&layout);
  message.insert(message.end(), bytes, bytes + sizeof(layout));
}

Frame Finish(const Gid& source, const Gid& destination, Frame message, const Link& link) {
  const uint16_t checksum = InternetChecksum(message);
  message[2] = static_cast<uint8_t>(checksum >> 8);
  message[3] = static_cast<uint8_t>(checksum);
  FrameWriter writer({link.source, MulticastMac(destination), link.vlan_id}, wire::kEtherTypeIpv4);
  writer.AddIpv4WithRouterAlert(source, destination, kIpProtocolIgmp, kLinkTtl, message.size());
  writer.AddBytes(message);
  return writer.Finish();
}

constexpr uint8_t kLinkHopLimit = 1;
constexpr size_t kLeastQueryBytes = 24;
// Router alert with value 0, MLD (RFC 2711, 2.1), and an empty PadN.
constexpr RouterAlertLayout kMldRouterAlert{kIpProtocolIcmpv6, 0, {5, 2, 0, 0, 1, 0}};

Frame::const_pointer BeginOf(const void* layout) {
  return static_cast<Frame::const_pointer>(layout);
}

Frame MakeMessage(const std::vector<Gid>& groups, uint8_t record_type) {
  ListenerReportLayout report{};
  report.icmp.type = kIcmpv6ListenerReport;
  report.record_count = Be<2>(static_cast<uint16_t>(groups.size()));
  Frame message(BeginOf(&report), BeginOf(&report) + sizeof(report));
  for (const Gid& group : groups) {
    const ListenerRecordLayout record{record_type, 0, Be<2>(0), group.bytes};
    message.insert(message.end(), BeginOf(&record), BeginOf(&record) + sizeof(record));
  }
  return message;
}

}  // namespace

Frame MakeIgmpReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                     const Link& link) {
  const bool joined = membership == Membership::kJoined;
  Frame message;
  Append(message, IgmpReportLayout{.type = kReport3,
                                   .group_count = Be<2>(static_cast<uint16_t>(groups.size()))});
  for (const Gid& group : groups) {
    Append(message, IgmpRecordLayout{.type = joined ? kChangeToExclude : kChangeToInclude,
                                     .group = Ipv4Bytes(group)});
  }
  return Finish(source, kAllIgmp3Routers, std::move(message), link);
}

Frame MakeIgmpReport2(const Gid& source, const Gid& group, Membership membership,
                      const Link& link) {
  const bool joined = membership == Membership::kJoined;
  Frame message;
  Append(message, IgmpLayout{.type = joined ? kReport2 : kLeave2, .group = Ipv4Bytes(group)});
  return Finish(source, joined ? group : kAllRouters, std::move(message), link);
}

// RFC 3376, 7.1: the length gives the version. Queries of version 1 have code 0; they get answers
// of version 2, since such old routers no longer exist.
FrameResult CheckIgmpQuery(const IpView& ip, bool& is_old) {
  if (ip.payload.size() < sizeof(IgmpLayout)) return FrameResult::kTruncated;
  if (InternetChecksum(ip.payload) != 0) return FrameResult::kBadChecksum;
  if (ip.payload[0] != kQuery) return FrameResult::kNotForUs;
  if (ip.hop_limit != kLinkTtl) return FrameResult::kBadHeader;
  const size_t size = ip.payload.size();
  if (size > sizeof(IgmpLayout) && size < kLeastQuery3Bytes) return FrameResult::kTruncated;
  is_old = size == sizeof(IgmpLayout);
  return FrameResult::kTaken;
}

Frame MakeListenerReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                         const Link& link) {
  const bool joined = membership == Membership::kJoined;
  const Frame message = MakeMessage(groups, joined ? kChangeToExclude : kChangeToInclude);
  FrameWriter writer({link.source, MulticastMac(kAllMldRouters), link.vlan_id},
                     wire::kEtherTypeIpv6);
  writer.AddIpv6(source, kAllMldRouters, kIpProtocolHopByHop, kLinkHopLimit,
                 sizeof(kMldRouterAlert) + message.size());
  writer.Add(kMldRouterAlert);
  writer.AddIcmpv6(source, kAllMldRouters, message);
  return writer.Finish();
}

FrameResult CheckListenerQuery(const IpView& ip) {
  if (ip.payload.size() < kLeastQueryBytes) return FrameResult::kTruncated;
  if (ip.hop_limit != kLinkHopLimit) return FrameResult::kBadHeader;
  return IsLinkLocal(ip.source) ? FrameResult::kTaken : FrameResult::kBadAddress;
}

// ---- memberships ----

void GroupMembership::OnLink(bool up, Nanos now) {
  link_up_ = up;
  if (up) ReportAll(now);
}

void GroupMembership::OnDeadline(Nanos now) {
  if (now >= report_at_) ReportAll(now);
}

FrameResult GroupMembership::OnIgmp(const IpView& ip, Nanos now) {
  bool is_old = false;
  const FrameResult result = CheckIgmpQuery(ip, is_old);
  if (result != FrameResult::kTaken) return result;
  if (is_old) old_igmp_until_ = now + kOldRouterTime;
  report_at_ = std::min(report_at_, now + kReportDelay);
  return result;
}

FrameResult GroupMembership::OnListenerQuery(const IpView& ip, Nanos now) {
  const FrameResult result = CheckListenerQuery(ip);
  if (result == FrameResult::kTaken) report_at_ = std::min(report_at_, now + kReportDelay);
  return result;
}

void GroupMembership::Join(const Gid& group, Nanos now) {
  if (!groups_.insert(group).second || !link_up_) return;
  ForgetOldRouter(now);
  for (const uint16_t vlan_id : Vlans()) Report(vlan_id, {group}, Membership::kJoined);
  report_at_ = std::min(report_at_, now + kRepeatDelay);
}

void GroupMembership::Leave(const Gid& group) {
  if (groups_.erase(group) == 0 || !link_up_) return;
  for (const uint16_t vlan_id : Vlans()) Report(vlan_id, {group}, Membership::kLeft);
}

std::set<uint16_t> GroupMembership::Vlans() const {
  std::set<uint16_t> vlans;
  for (const AddressClaim& claim : claims_) vlans.insert(claim.address().vlan_id);
  return vlans;
}

bool GroupMembership::HasAddress(uint16_t vlan_id, bool is_ipv4) const {
  return std::ranges::any_of(claims_, [&](const AddressClaim& claim) {
    const InterfaceAddress& address = claim.address();
    return address.vlan_id == vlan_id && address.gid.is_ipv4() == is_ipv4;
  });
}

void GroupMembership::ReportAll(Nanos now) {
  report_at_ = kNever;
  ForgetOldRouter(now);
  for (const uint16_t vlan_id : Vlans()) ReportAll(vlan_id);
}

void GroupMembership::ForgetOldRouter(Nanos now) {
  if (now >= old_igmp_until_) old_igmp_until_ = Nanos(0);
}

void GroupMembership::ReportAll(uint16_t vlan_id) {
  std::set<Gid> groups = groups_;
  for (const AddressClaim& claim : claims_) {
    const InterfaceAddress& address = claim.address();
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

void GroupMembership::Report(uint16_t vlan_id, const std::vector<Gid>& groups,
                             Membership membership) {
  if (groups.empty() || !HasAddress(vlan_id, groups.front().is_ipv4())) return;
  if (groups.front().is_ipv4()) {
    ReportIpv4(vlan_id, groups, membership);
  } else {
    ReportIpv6(vlan_id, groups, membership);
  }
}

void GroupMembership::ReportIpv4(uint16_t vlan_id, const std::vector<Gid>& groups,
                                 Membership membership) {
  const Gid source = SourceFor(claims_, vlan_id, groups.front()).value_or(Ipv4Gid(0));
  const Link link{mac_, {}, vlan_id};
  if (old_igmp_until_ == Nanos(0)) {
    frames_.push_back(MakeIgmpReport(source, groups, membership, link));
    return;
  }
  for (const Gid& group : groups) {
    frames_.push_back(MakeIgmpReport2(source, group, membership, link));
  }
}

void GroupMembership::ReportIpv6(uint16_t vlan_id, const std::vector<Gid>& groups,
                                 Membership membership) {
  Gid source;  // :: until there is a link-local address (RFC 3590, 4).
  for (const AddressClaim& claim : claims_) {
    const InterfaceAddress& address = claim.address();
    const bool usable = claim.state() == AddressClaim::State::kUsable;
    if (usable && address.vlan_id == vlan_id && IsLinkLocal(address.gid)) source = address.gid;
  }
  frames_.push_back(MakeListenerReport(source, groups, membership, {mac_, {}, vlan_id}));
}

}  // namespace uroce::nic
