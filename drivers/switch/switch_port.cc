// SPDX-License-Identifier: Apache-2.0
#include "drivers/switch/switch_port.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/base/types.h"
#include "pipeline/port/frames.h"

namespace uroce::drivers {
namespace {

/// Depth of each ring from a worker to worker 0, which runs the network.
constexpr uint32_t kSentFrames = 128;
/// The most room that Room reports: senders need to know no more.
constexpr uint32_t kEnoughRoom = 64;
constexpr uint16_t kSwitchBurst = 32;

fabric::Frame FrameOf(rte_mbuf* mbuf) {
  return {.bytes = rte_pktmbuf_mtod(mbuf, uint8_t*), .length_bytes = mbuf->data_len, .owner = mbuf};
}

rte_mbuf* MbufOf(const fabric::Frame& frame) { return static_cast<rte_mbuf*>(frame.owner); }

}  // namespace

SwitchNetwork::Place::Place(uint16_t queues) : bells(queues) {
  for (uint16_t queue = 0; queue < queues; ++queue) {
    if (queue != 0) sent.push_back(std::make_unique<FrameQueue>(kSentFrames));
    received.push_back(std::make_unique<FrameQueue>(kSwitchReceiveFrames));
  }
}

SwitchNetwork::SwitchNetwork(const SwitchNetworkConfig& config, rte_mempool* copies)
    : nics_(config.nics),
      has_nic_(config.nics.size(), true),
      queues_(config.queues),
      copies_(copies),
      fabric_(*this, {.max_frames = config.max_frames, .seed = config.seed}) {
  for (const fabric::SwitchConfig& each : config.switches) fabric_.AddSwitch(each);
  for (const SwitchNic& nic : nics_) {
    fabric_.AddHost(nic.switch_index, nic.mac, nic.link);
    places_.push_back(std::make_unique<Place>(queues_));
  }
  for (const SwitchTrunk& trunk : config.trunks) {
    fabric_.Join(trunk.first_switch, trunk.second_switch, trunk.link);
  }
}

std::optional<uint32_t> SwitchNetwork::FreeHost(uint32_t switch_index) const {
  for (uint32_t host = 0; host < nics_.size(); ++host) {
    if (!has_nic_[host] && nics_[host].switch_index == switch_index) return host;
  }
  return std::nullopt;
}

void SwitchNetwork::TakeIn(uint32_t host, const SwitchNic& nic) {
  nics_[host] = nic;
  has_nic_[host] = true;
}

std::optional<uint32_t> SwitchNetwork::HostOf(uint32_t device) const {
  for (uint32_t host = 0; host < nics_.size(); ++host) {
    if (has_nic_[host] && nics_[host].device == device) return host;
  }
  return std::nullopt;
}

void SwitchNetwork::Plug(uint32_t host) {
  fabric_.SetHost(host, nics_[host].mac);
  SetUp(fabric_.CableOf(host), true);
}

void SwitchNetwork::Unplug(uint32_t host) {
  SetUp(fabric_.CableOf(host), false);
  places_[host] = std::make_unique<Place>(queues_);
}

uint16_t SwitchNetwork::Receive(uint32_t host, uint16_t queue, rte_mbuf** frames, uint16_t count,
                                Nanos now) {
  if (queue == 0) {
    Advance(now);
    if (queues_ != 1) TakeSent(host);
  }
  return places_[host]->received[queue]->Take(frames, count);
}

uint16_t SwitchNetwork::Transmit(uint32_t host, uint16_t queue, rte_mbuf* const* frames,
                                 uint16_t count, Nanos now) {
  if (queue != 0) {
    const uint16_t put = places_[host]->sent[queue - 1u]->Put(frames, count);
    if (put != 0) BellOf(host, 0).Ring();
    return put;
  }
  Advance(now);
  uint16_t sent = 0;
  for (; sent < count && fabric_.SendRoom(host) != 0; ++sent) Send(host, frames[sent]);
  return sent;
}

/// Runs once per turn: all ports have the same `now` in a turn. Time without events is no lag.
void SwitchNetwork::Advance(Nanos now) {
  const Nanos before = this->now();
  if (now == turn_ && before != now) return;
  turn_ = now;
  const Nanos next = std::min(now, std::max(fabric_.NextEvent(), now - kMostSwitchLag));
  const Nanos after = std::min(now, std::max(before, next) + kSwitchStep);
  now_.store(after, std::memory_order_relaxed);
  fabric_.Advance(after);
}

void SwitchNetwork::Send(uint32_t host, rte_mbuf* frame) {
  fabric_.Send(host, FrameOf(frame), now());
}

void SwitchNetwork::TakeSent(uint32_t host) {
  for (const auto& sent : places_[host]->sent) {
    rte_mbuf* frame = nullptr;
    for (uint16_t i = 0; i < kSwitchBurst && fabric_.SendRoom(host) != 0; ++i) {
      if (sent->Take(&frame, 1) == 0) break;
      Send(host, frame);
    }
  }
}

uint16_t SwitchNetwork::Room(uint32_t host, uint16_t queue) {
  const uint32_t room =
      queue == 0 ? fabric_.SendRoom(host) : places_[host]->sent[queue - 1u]->Room(kEnoughRoom);
  return static_cast<uint16_t>(std::min(room, kEnoughRoom));
}

bool SwitchNetwork::HasFrames(uint32_t host, uint16_t queue) const {
  const Place& place = *places_[host];
  if (!place.received[queue]->empty()) return true;
  if (queue != 0 || fabric_.SendRoom(host) == 0) return false;
  return std::ranges::any_of(place.sent, [](const auto& sent) { return !sent->empty(); });
}

void SwitchNetwork::Deliver(uint32_t host, const fabric::Frame& frame, Nanos) {
  Place& place = *places_[host];
  rte_mbuf* const mbuf = MbufOf(frame);
  const auto queue = static_cast<uint16_t>(OwnerOf(DestinationOf(*mbuf), queues_));
  if (place.received[queue]->Put(&mbuf, 1) == 0) {
    place.missed.store(missed(host) + 1, std::memory_order_relaxed);
    return rte_pktmbuf_free(mbuf);
  }
  if (queue != 0) place.bells[queue].Ring();
}

std::optional<fabric::Frame> SwitchNetwork::Copy(const fabric::Frame& frame) {
  rte_mbuf* const copy = rte_pktmbuf_copy(MbufOf(frame), copies_, 0, UINT32_MAX);
  if (copy == nullptr) return std::nullopt;
  // Ports carry single segments, and a pool of small mbufs would make a chain.
  if (copy->nb_segs == 1) return FrameOf(copy);
  rte_pktmbuf_free(copy);
  return std::nullopt;
}

void SwitchNetwork::Free(const fabric::Frame& frame) { rte_pktmbuf_free(MbufOf(frame)); }

bool SwitchPort::BeforeSleep(uint16_t queue) {
  if (!wakes_itself()) network_->BellOf(host_, queue).Announce();
  return !network_->HasFrames(host_, queue);
}

void SwitchPort::AfterSleep(uint16_t queue) {
  if (!wakes_itself()) network_->BellOf(host_, queue).TakeBack();
}

PortInfo SwitchPort::Info() const {
  const SwitchNic& nic = network_->nic(host_);
  const fabric::Fabric& fabric = network_->fabric();
  const fabric::Link& link = fabric.link(2 * fabric.CableOf(host_));
  return {.mac = nic.mac,
          .mtu_bytes = nic.mtu_bytes,
          .link_up = link.is_up,
          .speed_bps = link.config.rate_bps,
          .driver = "switch",
          .interface = "",
          .ifindex = 0};
}

}  // namespace uroce::drivers
