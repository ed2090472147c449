// SPDX-License-Identifier: Apache-2.0
#include "nic/paths/gsi.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nic/net/address.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kDscpMask = 0xfc;  // The other bits are ECN.

/// Nothing if it is a multicast MAC: an answer would go to a whole group.
std::optional<Mac> SourceMacOf(std::span<const uint8_t> frame) {
  Mac mac;
  std::ranges::copy(frame.subspan(mac.size(), mac.size()), mac.begin());
  const bool is_group = (mac[0] & 1) != 0;
  return is_group ? std::nullopt : std::optional(mac);
}

/// The traffic class of a decoded packet.
uint8_t TrafficClassOf(std::span<const uint8_t> frame, const wire::FrameView& view) {
  const uint8_t* const ip = frame.data() + view.ip_offset;
  const auto in_ipv6 = static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4);
  return (view.is_ipv6 ? in_ipv6 : ip[1]) & kDscpMask;
}

/// MADs are few, repeated by timers, and share the queues of data. A switch that marks the data of
/// a queue drops the packets without ECT behind them, so MADs have ECT where data have it.
uint8_t TrafficClassFor(const NetDevice& device, uint8_t traffic_class) {
  return device.IsEcnCapable(traffic_class) ? wire::EcnCapable(traffic_class) : traffic_class;
}

wire::HeaderTemplate TemplateOf(const NetDevice& device, const Mac& destination,
                                const cm::Route& route) {
  const uint16_t vlan_id = cm::VlanOf(route);
  return wire::HeaderTemplate(
      {.source_mac = device.mac(),
       .destination_mac = destination,
       .vlan_tci = vlan_id == 0 ? uint16_t{0} : VlanTci(vlan_id, route.sl),
       .source = route.local,
       .destination = route.remote,
       .traffic_class = TrafficClassFor(device, route.traffic_class),
       .hop_limit = route.hop_limit,
       .flow_label = route.flow_label,
       .udp_source_port = wire::UdpSourcePort(route.flow_label, wire::kGsiQpn, wire::kGsiQpn),
       .dest_qpn = wire::kGsiQpn});
}

using FrameBytes =
    std::array<uint8_t, wire::kMaxHeaderBytes + wire::kMadBytes + wire::kMaxTrailerBytes>;

/// Writes a complete frame into `buffer`.
std::span<const uint8_t> WriteFrame(const wire::HeaderTemplate& path, const Mad& mad, wire::Psn psn,
                                    uint16_t identification, FrameBytes& buffer) {
  constexpr uint32_t kBytes{wire::kMadBytes};
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(path, wire::GsiHeader(psn), kBytes, identification, buffer.data());
  uint8_t* const payload = buffer.data() + headers.length_bytes;
  const uint32_t crc = wire::CopyCrc32(headers.crc_state, payload, mad.data(), kBytes);
  const size_t trailer = wire::WriteTrailer(payload + kBytes, kBytes, crc);
  return std::span(buffer).first(headers.length_bytes + kBytes + trailer);
}

}  // namespace

Gsi::Gsi(Timers& timers, Neighbours& neighbours, const std::vector<Port>& ports)
    : timers_(timers), neighbours_(neighbours) {
  for (const Port& port : ports) AddPort(port);
}

void Gsi::AddPort(const Port& port) {
  ports_[port.device->index()] = port;
  port.channel->SetReceiver([this, device = port.device](std::span<const uint8_t> frame) {
    OnFrame(*device, frame);
    return true;
  });
}

void Gsi::RemovePort(const NetDevice& device) {
  ports_.at(device.index()).channel->SetReceiver(nullptr);
  ports_.erase(device.index());
  std::erase_if(lookups_, [&](const auto& entry) {
    if (entry.second.device != &device) return false;
    neighbours_.Cancel(entry.first);
    return true;
  });
  std::erase_if(paths_, [&](const auto& entry) { return entry.first.device == &device; });
}

Gsi::~Gsi() {
  for (const auto& [index, port] : ports_) port.channel->SetReceiver(nullptr);
  timers_.Cancel(forget_timer_);
  for (const auto& [lookup, key] : lookups_) neighbours_.Cancel(lookup);
}

void Gsi::SetHandler(uint8_t management_class, Handler handler) {
  if (handler == nullptr) {
    handlers_.erase(management_class);
  } else {
    handlers_[management_class] = std::move(handler);
  }
}

void Gsi::OnFrame(const NetDevice& device, std::span<const uint8_t> frame) {
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
  handler->second({.device = cm::RouteDevice(device.index(), VlanIdOf(view.vlan_tci)),
                   .local = packet.destination,
                   .remote = packet.source,
                   .traffic_class = TrafficClassOf(frame, view),
                   .frame_source = SourceMacOf(frame)},
                  mad);
}

bool Gsi::Send(const cm::Route& route, const Mad& mad) {
  const auto port = ports_.find(cm::DeviceOf(route));
  if (port == ports_.end()) {
    ++counters_.no_neighbour;
    return true;
  }
  const PathKey key{port->second.device, cm::VlanOf(route), route.local, route.remote};
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

// A known path that is forgotten here is found again quickly.
void Gsi::StartLookup(const PathKey& key) {
  if (lookups_.size() == kMostLookups) GiveUpOldestLookup();
  if (paths_.size() == kMostPaths) {
    std::erase_if(paths_, [](const auto& entry) { return entry.second.followed != nullptr; });
  }
  const Neighbours::Id lookup = neighbours_.Resolve(
      key, [this, key](const absl::StatusOr<Mac>& mac) { OnNeighbour(key, mac); });
  paths_[key].lookup = lookup;
  lookups_[lookup] = key;
  if (forget_timer_ == 0) forget_timer_ = timers_.After(kForgetAfter, [this] { ForgetUnused(); });
}

void Gsi::GiveUpOldestLookup() {
  const auto [lookup, key] = *lookups_.begin();
  neighbours_.Cancel(lookup);
  lookups_.erase(lookup);
  counters_.no_neighbour += paths_.at(key).waiting.size();
  paths_.erase(key);
}

// If the link is full now, the peer or this side repeats the message.
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
  forget_timer_ = paths_.empty() ? 0 : timers_.After(kForgetAfter, [this] { ForgetUnused(); });
}

bool Gsi::SendTo(const Mac& mac, const cm::Route& route, const Mad& mad) {
  const Port& port = ports_.at(cm::DeviceOf(route));
  if (!port.channel->has_room()) return false;
  const wire::HeaderTemplate path = TemplateOf(*port.device, mac, route);
  FrameBytes buffer;
  port.channel->Send(WriteFrame(path, mad, wire::Psn(psn_++), identification_++, buffer));
  return true;
}

bool Gsi::is_idle() const {
  return std::ranges::all_of(ports_,
                             [](const auto& entry) { return entry.second.channel->is_idle(); });
}

}  // namespace uroce::nic
