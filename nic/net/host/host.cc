// SPDX-License-Identifier: Apache-2.0
// The addresses of the host, its deadlines, and the frames that it sends by itself.
#include "nic/net/host/host.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {
namespace {

constexpr uint8_t kLinkLocalBits = 64;

// The length of the common prefix of two addresses, in bits.
int CommonBits(const Gid& a, const Gid& b) {
  int bits = 0;
  while (bits < 128 && ((a.bytes[bits / 8] ^ b.bytes[bits / 8]) >> (7 - bits % 8) & 1) == 0) ++bits;
  return bits;
}

}  // namespace

Host::Host(const HostConfig& config) : mac_(config.mac), routes_(config.routes) {
  const InterfaceAddress link_local{DefaultGid(mac_), kLinkLocalBits, 0};
  own_.push_back(link_local);
  for (const InterfaceAddress& address : config.addresses) {
    if (address.gid != link_local.gid) own_.push_back(address);
  }
  for (const InterfaceAddress& address : own_) claims_.emplace_back(address);
}

void Host::OnLink(bool up, Nanos now) {
  link_up_ = up;
  for (AddressClaim& claim : claims_) {
    if (up) {
      claim.OnLinkUp(now);
    } else {
      claim.OnLinkDown();
    }
  }
  if (!up) return;
  neighbours_.OnLinkUp(now);
  // Before the probes: a snooping switch must let their answers through.
  ReportMemberships(now);
  OnDeadline(now);
}

void Host::OnDeadline(Nanos now) {
  for (AddressClaim& claim : claims_) RunClaim(claim, now);
  neighbours_.OnDeadline(now);
  if (now >= report_at_) ReportMemberships(now);
  DrainNeighbours();
}

Nanos Host::NextDeadline() const {
  Nanos deadline = std::min(neighbours_.NextDeadline(), report_at_);
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
  const std::optional<Gid> source = SourceFor(vlan_id, target);
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

std::optional<Gid> Host::SourceFor(uint16_t vlan_id, const Gid& peer) const {
  std::optional<Gid> best;
  for (const AddressClaim& claim : claims_) {
    const InterfaceAddress& address = claim.address();
    if (claim.state() != AddressClaim::State::kUsable || address.vlan_id != vlan_id) continue;
    if (address.gid.is_ipv4() != peer.is_ipv4()) continue;
    if (!best || CommonBits(address.gid, peer) > CommonBits(*best, peer)) best = address.gid;
  }
  return best;
}

void Host::DrainNeighbours() {
  while (const auto question = neighbours_.PollQuestion()) Ask(*question);
  while (const auto change = neighbours_.PollChange()) {
    const auto kind = change->mac ? HostEvent::Kind::kNeighbour : HostEvent::Kind::kNeighbourSilent;
    events_.push_back({kind, change->hop, change->mac.value_or(Mac{})});
  }
}

}  // namespace uroce::nic
