// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/host.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "nic/net/host/frame.h"
#include "nic/net/host/group_membership.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kHopLimit = 64;
constexpr uint8_t kLinkLocalBits = 64;
constexpr size_t kEchoHeaderBytes = 8;

Frame WithType(Bytes message, uint8_t type) {
  Frame reply(message.begin(), message.end());
  reply[0] = type;
  return reply;
}

FrameResult CheckIcmpv6(const IpView& ip) {
  if (ip.protocol != kIpProtocolIcmpv6) return FrameResult::kNotForUs;
  if (ip.payload.size() < sizeof(IcmpLayout)) return FrameResult::kTruncated;
  const bool right = Icmpv6Checksum(ip.source, ip.destination, ip.payload) == 0;
  return right ? FrameResult::kTaken : FrameResult::kBadChecksum;
}

}  // namespace

Frame MakeEchoReply(const EthernetView& ethernet, const IpView& request, const Mac& our_mac) {
  const Link link{our_mac, ethernet.source, ethernet.vlan_id};
  const Gid& from = request.destination;
  const Gid& to = request.source;
  if (request.protocol == kIpProtocolIcmpv6) {
    FrameWriter writer(link, wire::kEtherTypeIpv6);
    writer.AddIpv6(from, to, kIpProtocolIcmpv6, kHopLimit, request.payload.size());
    writer.AddIcmpv6(from, to, WithType(request.payload, kIcmpv6EchoReply));
    return writer.Finish();
  }
  Frame message = WithType(request.payload, kIcmpEchoReply);
  auto header = Load<IcmpLayout>(message);
  header.checksum = Be<2>(0);
  std::memcpy(message.data(), &header, sizeof(header));
  header.checksum = Be<2>(InternetChecksum(message));
  std::memcpy(message.data(), &header, sizeof(header));
  FrameWriter writer(link, wire::kEtherTypeIpv4);
  writer.AddIpv4(from, to, kIpProtocolIcmp, message.size());
  writer.AddBytes(message);
  return writer.Finish();
}

// ---- addresses, deadlines, and the frames that the host sends by itself ----

Host::Host(const HostConfig& config)
    : mac_(config.mac), routes_(config.routes), groups_(mac_, claims_, frames_) {
  const InterfaceAddress link_local{DefaultGid(mac_), kLinkLocalBits, 0};
  own_.push_back(link_local);
  for (const InterfaceAddress& address : config.addresses) {
    if (address.gid != link_local.gid) own_.push_back(address);
  }
  for (const InterfaceAddress& address : own_) claims_.emplace_back(address);
}

void Host::OnLink(bool up, Nanos now) {
  for (AddressClaim& claim : claims_) {
    if (up) {
      claim.OnLinkUp(now);
    } else {
      claim.OnLinkDown();
    }
  }
  if (up) neighbours_.OnLinkUp(now);
  // Before the probes: a snooping switch must let their answers through.
  groups_.OnLink(up, now);
  if (up) OnDeadline(now);
}

void Host::OnDeadline(Nanos now) {
  for (AddressClaim& claim : claims_) RunClaim(claim, now);
  neighbours_.OnDeadline(now);
  groups_.OnDeadline(now);
  DrainNeighbours();
}

Nanos Host::NextDeadline() const {
  Nanos deadline = std::min(neighbours_.NextDeadline(), groups_.NextDeadline());
  for (const AddressClaim& claim : claims_) deadline = std::min(deadline, claim.NextDeadline());
  return deadline;
}

std::optional<Frame> Host::PollFrame() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

std::optional<HostEvent> Host::PollEvent() {
  if (events_.empty()) return std::nullopt;
  const HostEvent event = events_.front();
  events_.pop_front();
  return event;
}

absl::StatusOr<NextHop> Host::Route(const Gid& source, const Gid& destination) const {
  return FindNextHop(own_, routes_, source, destination);
}

NeighbourCache::Answer Host::Find(const NextHop& hop, Nanos now, Mac& mac) {
  const NeighbourCache::Answer answer = neighbours_.Find(hop, now, mac);
  DrainNeighbours();
  return answer;
}

std::vector<InterfaceAddress> Host::UsableAddresses() const {
  std::vector<InterfaceAddress> usable;
  for (auto claim = claims_.begin() + 1; claim != claims_.end(); ++claim) {
    if (claim->state() == AddressClaim::State::kUsable) usable.push_back(claim->address());
  }
  return usable;
}

bool Host::has_tentative_address() const {
  return std::ranges::any_of(claims_, [](const AddressClaim& claim) {
    return claim.state() == AddressClaim::State::kTentative;
  });
}

AddressClaim* Host::FindClaim(uint16_t vlan_id, const Gid& address) {
  for (AddressClaim& claim : claims_) {
    if (claim.address().gid == address && claim.address().vlan_id == vlan_id) return &claim;
  }
  return nullptr;
}

bool Host::IsUsable(uint16_t vlan_id, const Gid& address) {
  const AddressClaim* claim = FindClaim(vlan_id, address);
  return claim != nullptr && claim->state() == AddressClaim::State::kUsable;
}

void Host::OnConflict(AddressClaim& claim, const Mac& other, Nanos now) {
  const NextHop who{claim.address().gid, claim.address().vlan_id};
  switch (claim.OnConflict(now)) {
    case AddressClaim::Reaction::kNone:
      return;
    case AddressClaim::Reaction::kLost:
      events_.push_back({HostEvent::Kind::kAddressLost, who, other});
      return;
    case AddressClaim::Reaction::kDefend:
      events_.push_back({HostEvent::Kind::kAddressContested, who, other});
      Announce(claim.address());
      return;
  }
}

void Host::RunClaim(AddressClaim& claim, Nanos now) {
  switch (claim.OnDeadline(now)) {
    case AddressClaim::Step::kNone:
      return;
    case AddressClaim::Step::kProbe:
      return SendProbe(claim.address());
    case AddressClaim::Step::kUse:
      events_.push_back(
          {HostEvent::Kind::kAddressUsable, {claim.address().gid, claim.address().vlan_id}, mac_});
      [[fallthrough]];
    case AddressClaim::Step::kAnnounce:
      return Announce(claim.address());
  }
}

void Host::SendProbe(const InterfaceAddress& address) {
  if (address.gid.is_ipv4()) {
    const ArpPacket probe{.is_request = true,
                          .sender_mac = mac_,
                          .sender = Ipv4Gid(0),
                          .target_mac = {},
                          .target = address.gid};
    frames_.push_back(MakeArp(probe, {mac_, kBroadcastMac, address.vlan_id}));
    return;
  }
  const Gid group = SolicitedNodeGroup(address.gid);
  frames_.push_back(MakeSolicitation({Gid{}, group, address.gid, std::nullopt},
                                     {mac_, MulticastMac(group), address.vlan_id}));
}

// Hosts with an older MAC of the address learn the new one (RFC 5227, 2.3; RFC 4861, 7.2.6).
void Host::Announce(const InterfaceAddress& address) {
  if (address.gid.is_ipv4()) {
    const ArpPacket announcement{.is_request = true,
                                 .sender_mac = mac_,
                                 .sender = address.gid,
                                 .target_mac = {},
                                 .target = address.gid};
    frames_.push_back(MakeArp(announcement, {mac_, kBroadcastMac, address.vlan_id}));
    return;
  }
  const NeighbourAdvertisement announcement{.source = address.gid,
                                            .destination = kAllNodes,
                                            .target = address.gid,
                                            .solicited = false,
                                            .overrides = true,
                                            .target_mac = mac_};
  frames_.push_back(
      MakeAdvertisement(announcement, {mac_, MulticastMac(kAllNodes), address.vlan_id}));
}

void Host::Ask(const NeighbourCache::Question& question) {
  const auto& [target, vlan_id] = question.hop;
  const std::optional<Gid> source = SourceFor(claims_, vlan_id, target);
  if (!source) return;  // No address is usable yet: the next question may find one.
  if (target.is_ipv4()) {
    const ArpPacket request{.is_request = true,
                            .sender_mac = mac_,
                            .sender = *source,
                            .target_mac = {},
                            .target = target};
    frames_.push_back(MakeArp(request, {mac_, question.mac.value_or(kBroadcastMac), vlan_id}));
    return;
  }
  const Gid destination = question.mac ? target : SolicitedNodeGroup(target);
  const Mac to = question.mac.value_or(MulticastMac(destination));
  frames_.push_back(MakeSolicitation({*source, destination, target, mac_}, {mac_, to, vlan_id}));
}

void Host::DrainNeighbours() {
  while (const auto question = neighbours_.PollQuestion()) Ask(*question);
  while (const auto change = neighbours_.PollChange()) {
    const auto kind = change->mac ? HostEvent::Kind::kNeighbour : HostEvent::Kind::kNeighbourSilent;
    events_.push_back({kind, change->hop, change->mac.value_or(Mac{})});
  }
}

// ---- received frames ----

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
  if (ip.protocol == kIpProtocolIgmp) return groups_.OnIgmp(ip, now);
  // Packets with options are rare, and none of them needs an answer from the host.
  if (ip.has_options) return FrameResult::kBadHeader;
  if (ip.protocol != kIpProtocolIcmp) return FrameResult::kNotForUs;
  if (!IsUsable(ethernet.vlan_id, ip.destination)) return FrameResult::kNotForUs;
  if (ip.payload.size() < kEchoHeaderBytes) return FrameResult::kTruncated;
  if (InternetChecksum(ip.payload) != 0) return FrameResult::kBadChecksum;
  if (ip.payload[0] != kIcmpEchoRequest) return FrameResult::kNotForUs;
  return OnEcho(ethernet, ip);
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
      return groups_.OnListenerQuery(ip, now);
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
