// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/negotiation_host.h"

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

NegotiationHost::NegotiationHost(EventLoop& loop, Nic& nic, Gsi& gsi)
    : loop_(loop), nic_(nic), gsi_(gsi), negotiation_(MakeConfig(), Random64) {
  for (const auto& device : nic.devices()) AddDevice(*device);
  gsi_.SetHandler(
      wire::kCapabilitiesClass,
      [this](const cm::Route& route, std::span<const uint8_t> mad) { OnMad(route, mad); });
}

NegotiationHost::~NegotiationHost() {
  gsi_.SetHandler(wire::kCapabilitiesClass, nullptr);
  loop_.Cancel(timer_);
}

void NegotiationHost::AddDevice(const NicDevice& device) {
  const bool repeats = device.config().selective_repeat;
  negotiation_.SetFeatures(device.index(), repeats ? wire::Capabilities::kSelectiveRepeat : 0);
}

void NegotiationHost::RemoveDevice(const NicDevice& device) {
  negotiation_.ForgetDevice(device.index());
}

peers::Holder NegotiationHost::Use(const PathKey& path, uint32_t user) {
  const NicDevice* const device = nic_.DeviceAt(path.device->index());
  if (device == nullptr || !device->config().selective_repeat) return nullptr;
  peers::Holder capabilities = negotiation_.Use(
      {path.device->index(), path.vlan_id, path.source, path.destination}, user, Nic::Now());
  Settle();
  return capabilities;
}

void NegotiationHost::OnMad(const cm::Route& route, std::span<const uint8_t> mad) {
  negotiation_.OnMad(KeyOf(route), mad, Nic::Now());
  SendDatagrams(route.frame_source);
  Settle();
}

void NegotiationHost::OnTimer() {
  timer_at_ = kNever;
  Settle();
}

// A timer that fires too early costs less than moving it.
void NegotiationHost::Settle() {
  const Nanos now = Nic::Now();
  negotiation_.OnDeadline(now);
  SendDatagrams(std::nullopt);
  TellQueuePairs();
  const Nanos deadline = negotiation_.NextDeadline();
  if (deadline >= timer_at_) return;
  loop_.Cancel(timer_);
  timer_at_ = deadline;
  timer_ = loop_.After(std::max(deadline - now, Nanos(0)), [this] { OnTimer(); });
}

// A datagram without room counts as lost: the question is asked again.
void NegotiationHost::SendDatagrams(const std::optional<Mac>& asked_by) {
  peers::Datagram datagram;
  while (negotiation_.PollDatagram(datagram)) {
    cm::Route route = RouteOf(datagram.key);
    if (datagram.mad.method == wire::MadMethod::kGetResponse) route.frame_source = asked_by;
    static_cast<void>(gsi_.Send(route, wire::EncodeCapabilities(datagram.mad)));
  }
}

void NegotiationHost::TellQueuePairs() {
  std::map<peers::Key, bool> agreed;
  peers::Change change;
  while (negotiation_.PollChange(change)) agreed[change.key] = change.selective_repeat;
  if (agreed.empty()) return;
  const auto capabilities = [&](const datapath::QueuePair& queue_pair) -> std::optional<bool> {
    const auto found = agreed.find(KeyOf(queue_pair));
    if (found == agreed.end()) return std::nullopt;
    return found->second;
  };
  for (uint32_t worker = 0; worker < nic_.workers().count(); ++worker) {
    nic_.workers().at(worker).SetSelectiveRepeat(capabilities);
  }
}

}  // namespace uroce::nic
