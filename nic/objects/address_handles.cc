// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/address_handles.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/net/address.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/wire/encode.h"

namespace uroce::nic {
namespace {

// The route's hop limit replaces the program's, as in the kernel (docs/protocol/verbs-semantics.md,
// section 4); 64 is the default of routes. Groups use the program's value.
constexpr uint8_t kHopLimit = 64;

uint8_t HopLimit(const Gid& destination, const uroce_ah_attr& attr) {
  return IsMulticast(destination) ? std::max<uint8_t>(attr.hop_limit, 1) : kHopLimit;
}

constexpr uint32_t kFlowLabelMask = 0xfffff;

}  // namespace

absl::StatusOr<PathKey> PathKeyOf(absl::string_view what, const NicDevice& device,
                                  const uroce_ah_attr& attr) {
  const std::optional<GidEntry> source = device.gids().At(attr.sgid_index);
  if (!source) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": sgid_index ", attr.sgid_index, " of ", device.name(), " is empty"));
  }
  Gid destination;
  std::copy(std::begin(attr.dgid), std::end(attr.dgid), destination.bytes.begin());
  if (destination == Gid{}) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": dgid ", FormatAddress(destination), " is no address"));
  }
  if (source->gid.is_ipv4() != destination.is_ipv4()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": sgid ", FormatAddress(source->gid),
                                                   " and dgid ", FormatAddress(destination),
                                                   " are of different families"));
  }
  return PathKey{&device, source->vlan_id, source->gid, destination};
}

datapath::Path MakePath(const PathKey& key, const Mac& destination, const uroce_ah_attr& attr) {
  datapath::Path path;
  path.source_mac = key.device->mac();
  path.destination_mac = destination;
  path.source = key.source;
  path.destination = key.destination;
  if (key.vlan_id != 0) path.vlan_tci = VlanTci(key.vlan_id, attr.sl);
  path.traffic_class = attr.traffic_class;
  path.hop_limit = HopLimit(key.destination, attr);
  path.flow_label = attr.flow_label & kFlowLabelMask;
  return path;
}

AddressHandles::AddressHandles(ProgramCore& core, const Contexts& contexts)
    : core_(core), contexts_(contexts), ahs_(core.LimitsOf(Kind::kAh)) {}

absl::StatusOr<AddressPlan> AddressHandles::Plan(const uroce_create_ah& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.attr.is_global == 0 || request.attr.port_num != 1) {
    return absl::InvalidArgumentError("ah: needs is_global and port 1 on Ethernet");
  }
  if (absl::Status status = ahs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<PathKey> path = PathKeyOf("ah", *(*pd)->context->device, request.attr);
  if (!path.ok()) return path.status();
  return AddressPlan{request, *path};
}

absl::StatusOr<uint32_t> AddressHandles::Create(const AddressPlan& plan, const Mac& destination,
                                                FollowedPaths::Holder followed) {
  absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(plan.request.pd);
  if (!pd.ok()) return pd.status();
  datapath::Path path = MakePath(plan.path, destination, plan.request.attr);
  path.udp_source_port = path.flow_label == 0 ? wire::kPortOfEachDatagram
                                              : wire::UdpSourcePort(path.flow_label, Qpn(), Qpn());
  path.static_rate_bps = StaticRateBps(plan.request.attr.static_rate);
  path.ecn_capable = IsEcnCapable((*pd)->context->device->config(), path.traffic_class);
  if (absl::Status status = MakeTable(); !status.ok()) return status;
  const absl::StatusOr<uint32_t> handle = ahs_.Add(std::make_unique<AddressHandle>(
      AddressHandle{.pd = Use(*pd),
                    .followed = std::move(followed),
                    .vector = datapath::AddressVector((*pd)->number(), path)}));
  if (!handle.ok()) return handle;
  AddressHandle* const ah = *ahs_.Find(*handle);
  core_.nic().address_handles().insert(ah);
  core_.session().SetAddress(*handle, &ah->vector);
  return handle;
}

// The table stays until the program ends.
absl::Status AddressHandles::MakeTable() {
  if (has_table_) return absl::OkStatus();
  const uint32_t capacity = core_.limits().kinds.of(Kind::kAh).of_program;
  if (absl::Status status = core_.TakeOwnBytes("ah", capacity * sizeof(void*)); !status.ok()) {
    return status;
  }
  core_.session().MakeAddressTable(capacity);
  has_table_ = true;
  return absl::OkStatus();
}

absl::Status AddressHandles::Destroy(uint32_t handle) {
  absl::StatusOr<AddressHandle*> ah = ahs_.Find(handle);
  if (!ah.ok()) return ah.status();
  core_.session().SetAddress(handle, nullptr);
  core_.AwaitGrace();
  core_.nic().address_handles().erase(*ah);
  ahs_.Remove(handle);
  return absl::OkStatus();
}

bool AddressHandles::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return ahs_.EndSome([&](const auto& object) { return object.pd->context == &context; }, is_over,
                      [this](uint32_t ah) { MustEnd(Destroy(ah)); });
}

// No queue pair of the program is left that could send by them.
bool AddressHandles::EndSome(absl::FunctionRef<bool()> is_over) {
  return ahs_.EndAll(is_over, [this](auto leaving) {
    for (const auto& ah : leaving) core_.nic().address_handles().erase(ah.get());
  });
}

}  // namespace uroce::nic
