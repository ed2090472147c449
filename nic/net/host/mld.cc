// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/mld.h"

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kHopLimit = 1;
constexpr uint8_t kChangeToInclude = 3;
constexpr uint8_t kChangeToExclude = 4;
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
