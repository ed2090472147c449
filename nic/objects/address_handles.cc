// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/address_handles.h"

#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/port_attributes.h"
#include "nic/objects/paths.h"
#include "pipeline/wire/encode.h"

namespace uroce::nic {

AddressHandles::AddressHandles(ProgramCore& core, const Contexts& contexts)
    : core_(core), contexts_(contexts), ahs_(Kind::kAh, core.limits(), core.user()) {}

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
  path.ecn_capable = (*pd)->context->device->IsEcnCapable(path.traffic_class);
  core_.session().MakeAddressTable(core_.limits().kinds.of(Kind::kAh).of_program);
  const absl::StatusOr<uint32_t> handle = ahs_.Add(std::make_unique<AddressHandle>(
      AddressHandle{.pd = *pd,
                    .followed = std::move(followed),
                    .vector = datapath::AddressVector((*pd)->number(), path)}));
  if (!handle.ok()) return handle;
  ++(*pd)->users;
  AddressHandle* const ah = *ahs_.Find(*handle);
  core_.nic().address_handles().insert(ah);
  core_.session().SetAddress(*handle, &ah->vector);
  return handle;
}

absl::Status AddressHandles::Destroy(uint32_t handle) {
  absl::StatusOr<AddressHandle*> ah = ahs_.Find(handle);
  if (!ah.ok()) return ah.status();
  core_.session().SetAddress(handle, nullptr);
  core_.AwaitGrace();
  core_.nic().address_handles().erase(*ah);
  --(*ah)->pd->users;
  ahs_.Remove(handle);
  return absl::OkStatus();
}

void AddressHandles::EndAllOf(const Context& context) {
  for (const uint32_t ah :
       ahs_.Handles([&](const auto& object) { return object.pd->context == &context; })) {
    static_cast<void>(Destroy(ah));
  }
}

void AddressHandles::Release() {
  ahs_.ForEach([this](uint32_t, AddressHandle& ah) { core_.nic().address_handles().erase(&ah); });
}

}  // namespace uroce::nic
