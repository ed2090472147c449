// SPDX-License-Identifier: Apache-2.0
// Handles the frames that the host receives.
#include <algorithm>

#include "nic/net/host/checksum.h"
#include "nic/net/host/echo.h"
#include "nic/net/host/host.h"
#include "nic/net/host/igmp.h"
#include "nic/net/host/mld.h"

namespace uroce::nic {
namespace {

constexpr size_t kEchoHeaderBytes = 8;
// The answers of many hosts to one query are spread in time (RFC 3810, 6.2); this host sends one
// answer to all queries within this delay.
constexpr Nanos kReportDelay{100'000'000};
// How long an older router is remembered (RFC 3376, 8.12, with the usual intervals).
constexpr Nanos kOldRouterTime{260'000'000'000};

FrameResult CheckIcmpv6(const IpView& ip) {
  if (ip.protocol != kIpProtocolIcmpv6) return FrameResult::kNotForUs;
  if (ip.payload.size() < sizeof(IcmpLayout)) return FrameResult::kTruncated;
  const bool right = Icmpv6Checksum(ip.source, ip.destination, ip.payload) == 0;
  return right ? FrameResult::kTaken : FrameResult::kBadChecksum;
}

}  // namespace

FrameResult Host::OnFrame(Bytes frame, Nanos now) {
  const FrameResult result = Dispatch(frame, now);
  ++frame_counts_[static_cast<size_t>(result)];
  DrainNeighbours();
  return result;
}

FrameResult Host::Dispatch(Bytes frame, Nanos now) {
  EthernetView ethernet;
  const FrameResult result = ParseEthernet(frame, ethernet);
  if (result != FrameResult::kTaken) return result;
  const bool to_group = (ethernet.destination[0] & 1) != 0;
  if (!to_group && ethernet.destination != mac_) return FrameResult::kNotForUs;
  if (ethernet.source == mac_) return FrameResult::kNotForUs;  // Our own frame came back.
  if (!IsUnicast(ethernet.source)) return FrameResult::kBadAddress;
  switch (ethernet.ether_type) {
    case kEtherTypeArp:
      return OnArp(ethernet, now);
    case wire::kEtherTypeIpv4:
      return OnIpv4(ethernet, now);
    case wire::kEtherTypeIpv6:
      return OnIpv6(ethernet, now);
    default:
      return FrameResult::kNotForUs;
  }
}

FrameResult Host::OnArp(const EthernetView& ethernet, Nanos now) {
  ArpPacket packet;
  const FrameResult result = ParseArp(ethernet.payload, packet);
  if (result != FrameResult::kTaken) return result;
  if (packet.sender_mac == mac_) return FrameResult::kNotForUs;
  const uint16_t vlan_id = ethernet.vlan_id;
  if (AddressClaim* taken = FindClaim(vlan_id, packet.sender)) {
    OnConflict(*taken, packet.sender_mac, now);
    return FrameResult::kTaken;
  }
  AddressClaim* const target = FindClaim(vlan_id, packet.target);
  const bool to_us = target != nullptr && ethernet.destination == mac_;
  if (IsArpProbe(packet)) {
    // A host that probes for the address we probe for wants it too (RFC 5227, 2.1.1).
    if (target != nullptr && target->probing()) OnConflict(*target, packet.sender_mac, now);
  } else {
    neighbours_.OnWord({packet.sender, vlan_id},
                       {.mac = packet.sender_mac, .solicited = !packet.is_request && to_us}, now);
  }
  if (target == nullptr) return FrameResult::kNotForUs;
  if (packet.is_request && IsUsable(vlan_id, packet.target)) AnswerArp(packet, vlan_id);
  return FrameResult::kTaken;
}

void Host::AnswerArp(const ArpPacket& request, uint16_t vlan_id) {
  const ArpPacket answer{.is_request = false,
                         .sender_mac = mac_,
                         .sender = request.target,
                         .target_mac = request.sender_mac,
                         .target = request.sender};
  frames_.push_back(MakeArp(answer, {mac_, request.sender_mac, vlan_id}));
}

FrameResult Host::OnIpv4(const EthernetView& ethernet, Nanos now) {
  IpView ip;
  const FrameResult result = ParseIpv4(ethernet.payload, ip);
  if (result != FrameResult::kTaken) return result;
  if (ip.protocol == kIpProtocolIgmp) return OnIgmp(ip, now);
  // Packets with options are rare, and none of them needs an answer from the host.
  if (ip.has_options) return FrameResult::kBadHeader;
  if (ip.protocol != kIpProtocolIcmp) return FrameResult::kNotForUs;
  if (!IsUsable(ethernet.vlan_id, ip.destination)) return FrameResult::kNotForUs;
  if (ip.payload.size() < kEchoHeaderBytes) return FrameResult::kTruncated;
  if (InternetChecksum(ip.payload) != 0) return FrameResult::kBadChecksum;
  if (ip.payload[0] != kIcmpEchoRequest) return FrameResult::kNotForUs;
  return OnEcho(ethernet, ip);
}

FrameResult Host::OnIgmp(const IpView& ip, Nanos now) {
  bool is_old = false;
  const FrameResult result = CheckIgmpQuery(ip, is_old);
  if (result != FrameResult::kTaken) return result;
  if (is_old) old_igmp_until_ = now + kOldRouterTime;
  report_at_ = std::min(report_at_, now + kReportDelay);
  return result;
}

FrameResult Host::OnIpv6(const EthernetView& ethernet, Nanos now) {
  IpView ip;
  FrameResult result = ParseIpv6(ethernet.payload, ip);
  if (result == FrameResult::kTaken) result = CheckIcmpv6(ip);
  if (result != FrameResult::kTaken) return result;
  switch (ip.payload[0]) {
    case kIcmpv6NeighbourSolicitation:
      return OnSolicitation(ethernet, ip, now);
    case kIcmpv6NeighbourAdvertisement:
      return OnAdvertisement(ethernet, ip, now);
    case kIcmpv6EchoRequest:
      if (!IsUsable(ethernet.vlan_id, ip.destination)) return FrameResult::kNotForUs;
      return OnEcho(ethernet, ip);
    case kIcmpv6ListenerQuery:
      result = CheckListenerQuery(ip);
      if (result == FrameResult::kTaken) report_at_ = std::min(report_at_, now + kReportDelay);
      return result;
    default:  // Includes router advertisements and redirects.
      return FrameResult::kNotForUs;
  }
}

// Answers to broadcast or multicast requests would add to a flood (RFC 1122, 3.2.2.6).
FrameResult Host::OnEcho(const EthernetView& ethernet, const IpView& ip) {
  if (ip.payload.size() < kEchoHeaderBytes) return FrameResult::kTruncated;
  if (ip.payload[1] != 0) return FrameResult::kBadHeader;
  if (!IsUnicast(ip.source) || ethernet.destination != mac_) return FrameResult::kBadAddress;
  frames_.push_back(MakeEchoReply(ethernet, ip, mac_));
  return FrameResult::kTaken;
}

FrameResult Host::OnSolicitation(const EthernetView& ethernet, const IpView& ip, Nanos now) {
  NeighbourSolicitation solicitation;
  const FrameResult result = ParseSolicitation(ip, solicitation);
  if (result != FrameResult::kTaken) return result;
  if (solicitation.source_mac == mac_) return FrameResult::kNotForUs;
  AddressClaim* const claim = FindClaim(ethernet.vlan_id, solicitation.target);
  if (claim == nullptr) return FrameResult::kNotForUs;
  if (solicitation.source == Gid{}) {
    // RFC 4862, 5.4.3: if two hosts probe for the same address at a time, neither uses it.
    if (claim->probing()) OnConflict(*claim, ethernet.source, now);
  } else if (solicitation.source_mac) {
    neighbours_.OnWord({solicitation.source, ethernet.vlan_id}, {.mac = solicitation.source_mac},
                       now);
  }
  if (claim->state() == AddressClaim::State::kUsable) AnswerSolicitation(solicitation, ethernet);
  return FrameResult::kTaken;
}

// RFC 4861, 7.2.4.
void Host::AnswerSolicitation(const NeighbourSolicitation& solicitation,
                              const EthernetView& ethernet) {
  const bool to_all = solicitation.source == Gid{};
  const NeighbourAdvertisement answer{.source = solicitation.target,
                                      .destination = to_all ? kAllNodes : solicitation.source,
                                      .target = solicitation.target,
                                      .solicited = !to_all,
                                      .overrides = true,
                                      .target_mac = mac_};
  const Mac to =
      to_all ? MulticastMac(kAllNodes) : solicitation.source_mac.value_or(ethernet.source);
  frames_.push_back(MakeAdvertisement(answer, {mac_, to, ethernet.vlan_id}));
}

FrameResult Host::OnAdvertisement(const EthernetView& ethernet, const IpView& ip, Nanos now) {
  NeighbourAdvertisement advertisement;
  const FrameResult result = ParseAdvertisement(ip, advertisement);
  if (result != FrameResult::kTaken) return result;
  if (AddressClaim* taken = FindClaim(ethernet.vlan_id, advertisement.target)) {
    OnConflict(*taken, advertisement.target_mac.value_or(ethernet.source), now);
    return FrameResult::kTaken;
  }
  if (advertisement.target_mac == mac_) return FrameResult::kBadAddress;
  neighbours_.OnWord({advertisement.target, ethernet.vlan_id},
                     {.mac = advertisement.target_mac,
                      .solicited = advertisement.solicited,
                      .overrides = advertisement.overrides},
                     now);
  return FrameResult::kTaken;
}

}  // namespace uroce::nic
