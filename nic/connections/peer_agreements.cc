// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/peer_agreements.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "nic/base/allocators.h"
#include "nic/devices/nic_device.h"
#include "nic/net/address.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

uint64_t Random64() { return uint64_t{SecureRandom()} << 32 | SecureRandom(); }

peers::Config MakeConfig() {
  return {.features = {}, .instance = Random64(), .secret = Random64()};
}

peers::Key KeyOf(const cm::Route& route) {
  return {cm::DeviceOf(route), cm::VlanOf(route), route.local, route.remote};
}

peers::Key KeyOf(const datapath::QueuePair& queue_pair) {
  const datapath::Path& path = queue_pair.path();
  return {queue_pair.config().device->index(), VlanIdOf(path.vlan_tci), path.source,
          path.destination};
}

cm::Route RouteOf(const peers::Key& key) {
  return {
      .device = cm::RouteDevice(key.device, key.vlan_id), .local = key.local, .remote = key.remote};
}

}  // namespace

PeerAgreements::PeerAgreements(EventLoop& loop, Nic& nic, Gsi& gsi)
    : loop_(loop), nic_(nic), gsi_(gsi), agreements_(MakeConfig(), Random64) {
  for (const auto& device : nic.devices()) AddDevice(*device);
  gsi_.SetHandler(
      wire::kCapabilitiesClass,
      [this](const cm::Route& route, std::span<const uint8_t> mad) { OnMad(route, mad); });
}

PeerAgreements::~PeerAgreements() {
  gsi_.SetHandler(wire::kCapabilitiesClass, nullptr);
  loop_.Cancel(timer_);
}

void PeerAgreements::AddDevice(const NicDevice& device) {
  const bool repeats = device.config().selective_repeat;
  agreements_.SetFeatures(device.index(), repeats ? wire::Capabilities::kSelectiveRepeat : 0);
}

void PeerAgreements::RemoveDevice(const NicDevice& device) {
  agreements_.ForgetDevice(device.index());
}

peers::Holder PeerAgreements::Use(const PathKey& path, uint32_t user) {
  const NicDevice* const device = nic_.DeviceAt(path.device->index());
  if (device == nullptr || !device->config().selective_repeat) return nullptr;
  peers::Holder agreement = agreements_.Use(
      {path.device->index(), path.vlan_id, path.source, path.destination}, user, Nic::Now());
  Settle();
  return agreement;
}

void PeerAgreements::OnMad(const cm::Route& route, std::span<const uint8_t> mad) {
  agreements_.OnMad(KeyOf(route), mad, Nic::Now());
  SendDatagrams(route.frame_source);
  Settle();
}

void PeerAgreements::OnTimer() {
  timer_at_ = kNever;
  Settle();
}

// A timer that fires too early costs less than moving it.
void PeerAgreements::Settle() {
  const Nanos now = Nic::Now();
  agreements_.OnDeadline(now);
  SendDatagrams(std::nullopt);
  TellQueuePairs();
  const Nanos deadline = agreements_.NextDeadline();
  if (deadline >= timer_at_) return;
  loop_.Cancel(timer_);
  timer_at_ = deadline;
  timer_ = loop_.After(std::max(deadline - now, Nanos(0)), [this] { OnTimer(); });
}

// A datagram without room counts as lost: the question is asked again.
void PeerAgreements::SendDatagrams(const std::optional<Mac>& asked_by) {
  peers::Datagram datagram;
  while (agreements_.PollDatagram(datagram)) {
    cm::Route route = RouteOf(datagram.key);
    if (datagram.mad.method == wire::MadMethod::kGetResponse) route.frame_source = asked_by;
    static_cast<void>(gsi_.Send(route, wire::EncodeCapabilities(datagram.mad)));
  }
}

void PeerAgreements::TellQueuePairs() {
  std::map<peers::Key, bool> agreed;
  peers::Change change;
  while (agreements_.PollChange(change)) agreed[change.key] = change.selective_repeat;
  if (agreed.empty()) return;
  const auto agreement = [&](const datapath::QueuePair& queue_pair) -> std::optional<bool> {
    const auto found = agreed.find(KeyOf(queue_pair));
    if (found == agreed.end()) return std::nullopt;
    return found->second;
  };
  for (uint32_t worker = 0; worker < nic_.workers().count(); ++worker) {
    nic_.workers().at(worker).SetSelectiveRepeat(agreement);
  }
}

}  // namespace uroce::nic
