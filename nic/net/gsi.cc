// SPDX-License-Identifier: Apache-2.0
#include "nic/net/gsi.h"

#include <sys/epoll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "nic/net/address.h"
#include "nic/rdma_cm/environment.h"
#include "pipeline/datapath/queue_pair_config.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kDscpMask = 0xfc;  // The rest is the network's.

/// Nothing where it is a group's: an answer would go to all of it.
std::optional<Mac> SourceMacOf(std::span<const uint8_t> frame) {
  Mac mac;
  std::ranges::copy(frame.subspan(mac.size(), mac.size()), mac.begin());
  const bool is_group = (mac[0] & 1) != 0;
  return is_group ? std::nullopt : std::optional(mac);
}

/// Traffic class of a decoded packet.
uint8_t TrafficClassOf(std::span<const uint8_t> frame, const wire::FrameView& view) {
  const uint8_t* const ip = frame.data() + view.ip_offset;
  const auto in_ipv6 = static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4);
  return (view.is_ipv6 ? in_ipv6 : ip[1]) & kDscpMask;
}

wire::HeaderTemplate TemplateOf(const Mac& source, const Mac& destination, const cm::Route& route) {
  datapath::Path path;
  path.source_mac = source;
  path.destination_mac = destination;
  path.source = route.local;
  path.destination = route.remote;
  path.traffic_class = route.traffic_class;
  path.hop_limit = route.hop_limit;
  path.flow_label = route.flow_label;
  const uint16_t vlan_id = rdma_cm::VlanOf(route);
  if (vlan_id != 0) path.vlan_tci = VlanTci(vlan_id, route.sl);
  path.udp_source_port = wire::UdpSourcePort(route.flow_label, wire::kGsiQpn, wire::kGsiQpn);
  path.remote_qpn = wire::kGsiQpn;
  return MakeTemplate(path);
}

/// Writes a whole frame and returns its length. `slot` is that of a GsiLink.
uint32_t WriteFrame(const wire::HeaderTemplate& path, const Mad& mad, wire::Psn psn,
                    uint16_t identification, uint8_t* slot) {
  constexpr uint32_t kBytes{wire::kMadBytes};
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(path, wire::GsiHeader(psn), kBytes, identification, slot);
  uint8_t* const payload = slot + headers.length_bytes;
  const uint32_t crc = wire::CopyCrc32(headers.crc_state, payload, mad.data(), kBytes);
  const size_t trailer = wire::WriteTrailer(payload + kBytes, kBytes, crc);
  return static_cast<uint32_t>(headers.length_bytes + kBytes + trailer);
}

}  // namespace

Gsi::Gsi(EventLoop& loop, Nic& nic, Neighbours& neighbours)
    : loop_(loop), nic_(nic), neighbours_(neighbours) {
  for (const auto& device : nic_.devices()) sources_.push_back({.device = device.get()});
  for (Source& source : sources_) {
    source.watch = loop_.Watch(source.device->gsi_link().wait_fd(), EPOLLIN,
                               [this, &source] { OnFrames(source); });
  }
}

Gsi::~Gsi() {
  for (const Source& source : sources_) {
    loop_.Forget(source.watch);
    loop_.Cancel(source.again);
  }
  loop_.Cancel(forget_timer_);
  for (const auto& [lookup, key] : lookups_) neighbours_.Cancel(lookup);
}

void Gsi::SetHandler(uint8_t management_class, Handler handler) {
  if (handler == nullptr) {
    handlers_.erase(management_class);
  } else {
    handlers_[management_class] = std::move(handler);
  }
}

// What is left after a turn's share waits until others have had theirs.
void Gsi::OnFrames(Source& source) {
  datapath::GsiLink& link = source.device->gsi_link();
  link.ClearWake();
  int taken = 0;
  for (; taken < kFramesPerTurn; ++taken) {
    const std::span<const uint8_t> frame = link.inbound().Front();
    if (frame.empty()) break;
    OnFrame(*source.device, frame);
    link.inbound().Pop();
  }
  if (taken < kFramesPerTurn && link.PrepareSleep()) return;
  loop_.Cancel(source.again);
  source.again = loop_.After(Nanos(0), [this, &source] { OnFrames(source); });
}

void Gsi::OnFrame(const NicDevice& device, std::span<const uint8_t> frame) {
  wire::Packet packet;
  wire::FrameView view;
  if (wire::Decode(frame, packet, view) != wire::DecodeResult::kOk) return;
  if (packet.payload.size() != wire::kMadBytes) return;
  const auto mad = packet.payload.first<wire::kMadBytes>();
  const auto handler = handlers_.find(wire::ManagementClassOf(mad));
  if (handler == handlers_.end()) {
    ++counters_.unknown_class;
    return;
  }
  const rdma_cm::Attachment at{device.datapath().index(), VlanIdOf(view.vlan_tci),
                               packet.destination};
  handler->second({.device = rdma_cm::RouteDevice(at),
                   .local = packet.destination,
                   .remote = packet.source,
                   .traffic_class = TrafficClassOf(frame, view),
                   .frame_source = SourceMacOf(frame)},
                  mad);
}

bool Gsi::Send(const cm::Route& route, const Mad& mad) {
  const NicDevice& device = *nic_.devices()[rdma_cm::DeviceOf(route)];
  const PathKey key{&device, rdma_cm::VlanOf(route), route.local, route.remote};
  const std::optional<absl::StatusOr<Mac>> at_once = neighbours_.Find(key);
  if (!at_once) return SendByPath(key, route, mad);
  if (at_once->ok()) return SendTo(**at_once, route, mad);
  ++counters_.no_neighbour;
  return true;
}

bool Gsi::SendByPath(const PathKey& key, const cm::Route& route, const Mad& mad) {
  const auto found = paths_.find(key);
  if (found != paths_.end() && found->second.followed != nullptr) {
    found->second.used = true;
    return SendTo(found->second.followed->mac, route, mad);
  }
  if (route.frame_source) return SendTo(*route.frame_source, route, mad);
  Await(key, route, mad);
  return true;
}

void Gsi::Await(const PathKey& key, const cm::Route& route, const Mad& mad) {
  if (!paths_.contains(key)) StartLookup(key);
  std::vector<Waiting>& waiting = paths_.at(key).waiting;
  if (waiting.size() == kMostWaiting) {
    ++counters_.no_room;
    return;
  }
  waiting.push_back({route, mad});
}

// A path that is known is quickly found again.
void Gsi::StartLookup(const PathKey& key) {
  if (lookups_.size() == kMostLookups) GiveUpOldestLookup();
  if (paths_.size() == kMostPaths) {
    std::erase_if(paths_, [](const auto& entry) { return entry.second.followed != nullptr; });
  }
  const Neighbours::Id lookup = neighbours_.Resolve(
      key, [this, key](const absl::StatusOr<Mac>& mac) { OnNeighbour(key, mac); });
  paths_[key].lookup = lookup;
  lookups_[lookup] = key;
  if (forget_timer_ == 0) forget_timer_ = loop_.After(kForgetAfter, [this] { ForgetUnused(); });
}

void Gsi::GiveUpOldestLookup() {
  const auto [lookup, key] = *lookups_.begin();
  neighbours_.Cancel(lookup);
  lookups_.erase(lookup);
  counters_.no_neighbour += paths_.at(key).waiting.size();
  paths_.erase(key);
}

// Where the link is full by now the peer, or we, will say it again.
void Gsi::OnNeighbour(const PathKey& key, const absl::StatusOr<Mac>& mac) {
  lookups_.erase(paths_.at(key).lookup);
  const std::vector<Waiting> waiting = std::exchange(paths_.at(key).waiting, {});
  FollowedPaths::Holder followed = mac.ok() ? neighbours_.Follow(key, *mac) : nullptr;
  if (followed == nullptr) {
    paths_.erase(key);
  } else {
    paths_.at(key).followed = std::move(followed);
  }
  for (const Waiting& each : waiting) {
    const bool sent = mac.ok() && SendTo(*mac, each.route, each.mad);
    if (!sent) ++(mac.ok() ? counters_.no_room : counters_.no_neighbour);
  }
}

void Gsi::ForgetUnused() {
  for (auto it = paths_.begin(); it != paths_.end();) {
    Path& path = it->second;
    const bool unused = path.followed != nullptr && !std::exchange(path.used, false);
    it = unused ? paths_.erase(it) : std::next(it);
  }
  forget_timer_ = paths_.empty() ? 0 : loop_.After(kForgetAfter, [this] { ForgetUnused(); });
}

bool Gsi::SendTo(const Mac& mac, const cm::Route& route, const Mad& mad) {
  const NicDevice& device = *nic_.devices()[rdma_cm::DeviceOf(route)];
  datapath::FrameRing& ring = device.gsi_link().outbound();
  const std::span<uint8_t> slot = ring.Reserve();
  if (slot.empty()) return false;
  const wire::HeaderTemplate path = TemplateOf(device.info().mac, mac, route);
  ring.Commit(WriteFrame(path, mad, wire::Psn(psn_++), identification_++, slot.data()));
  nic_.workers().OwnerOf(wire::kGsiQpn).Wake();
  return true;
}

bool Gsi::is_idle() const {
  return std::ranges::all_of(
      nic_.devices(), [](const auto& device) { return device->gsi_link().outbound().empty(); });
}

}  // namespace uroce::nic
