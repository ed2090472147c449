// SPDX-License-Identifier: Apache-2.0
// Address handles of a program.
#include <infiniband/verbs.h>

#include "absl/strings/str_cat.h"
#include "nic/resources/paths.h"
#include "nic/resources/program.h"
#include "pipeline/wire/encode.h"

namespace uroce::nic {

absl::StatusOr<AddressPlan> Program::PlanAh(const uroce_create_ah& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.attr.is_global == 0 || request.attr.port_num != 1) {
    return absl::InvalidArgumentError("ah: needs is_global and port 1 on Ethernet");
  }
  if (absl::Status status = ahs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<PathKey> path = PathKeyOf("ah", *(*pd)->context->device, request.attr);
  if (!path.ok()) return path.status();
  return AddressPlan{request, *path};
}

absl::StatusOr<uint32_t> Program::CreateAh(const AddressPlan& plan, const Mac& destination,
                                           FollowedPaths::Holder followed) {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(plan.request.pd);
  if (!pd.ok()) return pd.status();
  datapath::Path path = MakePath(plan.path, destination, plan.request.attr);
  path.udp_source_port = path.flow_label == 0 ? wire::kPortOfEachDatagram
                                              : wire::UdpSourcePort(path.flow_label, Qpn(), Qpn());
  session_.MakeAddressTable(nic_.config().limits.ahs);
  const absl::StatusOr<uint32_t> handle = ahs_.Add(std::make_unique<AddressHandle>(
      AddressHandle{.pd = *pd,
                    .followed = std::move(followed),
                    .vector = datapath::AddressVector((*pd)->number(), path)}));
  if (!handle.ok()) return handle;
  ++(*pd)->users;
  AddressHandle* const ah = *ahs_.Find(*handle);
  nic_.address_handles().insert(ah);
  session_.SetAddress(*handle, &ah->vector);
  return handle;
}

absl::Status Program::DestroyAh(uint32_t handle) {
  absl::StatusOr<AddressHandle*> ah = ahs_.Find(handle);
  if (!ah.ok()) return ah.status();
  session_.SetAddress(handle, nullptr);
  AwaitGrace();
  nic_.address_handles().erase(*ah);
  --(*ah)->pd->users;
  ahs_.Remove(handle);
  return absl::OkStatus();
}

bool Program::HasUnsentDatagrams() {
  bool any = false;
  VisitQueuePairs(
      [](const QueuePairObject& qp) { return qp.qp_type == IBV_QPT_UD; },
      [&](datapath::Worker& owner, datapath::QueuePair& qp) { any |= owner.LookForSends(&qp); });
  return any;
}

}  // namespace uroce::nic
