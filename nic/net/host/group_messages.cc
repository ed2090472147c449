// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/group_messages.h"

#include <algorithm>

#include "nic/net/address.h"
#include "nic/net/host/frame.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kTtl = 1;
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

std::array<uint8_t, 4> Ipv4Bytes(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

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
  writer.AddIpv4WithRouterAlert(source, destination, kIpProtocolIgmp, kTtl, message.size());
  writer.AddBytes(message);
  return writer.Finish();
}

constexpr uint8_t kHopLimit = 1;
constexpr size_t kLeastQueryBytes = 24;
// Router alert with value 0, MLD (RFC 2711, 2.1), and an empty PadN.
constexpr RouterAlertLayout kRouterAlert{kIpProtocolIcmpv6, 0, {5, 2, 0, 0, 1, 0}};

Frame::const_pointer BytesOf(const void* layout) {
  return static_cast<Frame::const_pointer>(layout);
}

Frame MakeMessage(const std::vector<Gid>& groups, uint8_t record_type) {
  ListenerReportLayout report{};
  report.icmp.type = kIcmpv6ListenerReport;
  report.record_count = Be<2>(static_cast<uint16_t>(groups.size()));
  Frame message(BytesOf(&report), BytesOf(&report) + sizeof(report));
  for (const Gid& group : groups) {
    const ListenerRecordLayout record{record_type, 0, Be<2>(0), group.bytes};
    message.insert(message.end(), BytesOf(&record), BytesOf(&record) + sizeof(record));
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
  if (ip.hop_limit != kTtl) return FrameResult::kBadHeader;
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
  writer.AddIpv6(source, kAllMldRouters, kIpProtocolHopByHop, kHopLimit,
                 sizeof(kRouterAlert) + message.size());
  writer.Add(kRouterAlert);
  writer.AddIcmpv6(source, kAllMldRouters, message);
  return writer.Finish();
}

FrameResult CheckListenerQuery(const IpView& ip) {
  if (ip.payload.size() < kLeastQueryBytes) return FrameResult::kTruncated;
  if (ip.hop_limit != kHopLimit) return FrameResult::kBadHeader;
  return IsLinkLocal(ip.source) ? FrameResult::kTaken : FrameResult::kBadAddress;
}

}  // namespace uroce::nic
