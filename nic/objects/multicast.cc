// SPDX-License-Identifier: Apache-2.0
// Attaches queue pairs to multicast groups: ibv_attach_mcast(3).
#include <infiniband/verbs.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"
#include "nic/objects/queue_pairs.h"

namespace uroce::nic {
namespace {

Gid GroupOf(const uroce_mcast& request) {
  Gid group;
  std::copy(std::begin(request.gid), std::end(request.gid), group.bytes.begin());
  return group;
}

datapath::Device& DeviceOf(const QueuePairObject& qp) { return qp.pd->context->device->datapath(); }

// Call it while all workers stand still.
void Remove(const QueuePairObject& qp, const Gid& group) {
  auto& groups = DeviceOf(qp).groups;
  const auto found = groups.find(group);
  std::erase_if(found->second,
                [&qp](const auto& member) { return member.queue_pair == &qp.queue_pair; });
  if (found->second.empty()) groups.erase(found);
}

}  // namespace

absl::Status QueuePairs::Attach(const uroce_mcast& request) {
  const absl::StatusOr<QueuePairObject*> found = qps_.Find(request.qp);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  const Gid group = GroupOf(request);
  if (qp.qp_type != IBV_QPT_UD) return absl::InvalidArgumentError("mcast: the qp is not UD");
  if (qp.groups.contains(group)) return absl::OkStatus();
  if (absl::Status status = attachments_.Check("mcast", 1); !status.ok()) return status;
  auto& groups = DeviceOf(qp).groups;
  const auto members = groups.find(group);
  if (members != groups.end() && members->second.size() == kMaxGroupMembers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mcast: ", FormatAddress(group), " has all ", kMaxGroupMembers, " members"));
  }
  if (absl::Status status = qp.pd->context->device->JoinGroup(group); !status.ok()) return status;
  const uint32_t worker = core_.nic().OwnerOf(qp.queue_pair).index();
  core_.nic().workers().RunTogether([&] { groups[group].push_back({&qp.queue_pair, worker}); });
  qp.groups.insert(group);
  attachments_.Take(1);
  return absl::OkStatus();
}

absl::Status QueuePairs::Detach(const uroce_mcast& request) {
  const absl::StatusOr<QueuePairObject*> found = qps_.Find(request.qp);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  const Gid group = GroupOf(request);
  if (!qp.groups.contains(group)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mcast: the qp is not attached to ", FormatAddress(group)));
  }
  core_.nic().workers().RunTogether([&] { Remove(qp, group); });
  qp.groups.erase(group);
  qp.pd->context->device->LeaveGroup(group);
  attachments_.Give(1);
  return absl::OkStatus();
}

void QueuePairs::DetachAll(QueuePairObject& qp) {
  if (qp.groups.empty()) return;
  core_.nic().workers().RunTogether([&] {
    for (const Gid& group : qp.groups) Remove(qp, group);
  });
  for (const Gid& group : qp.groups) qp.pd->context->device->LeaveGroup(group);
  attachments_.Give(qp.groups.size());
  qp.groups.clear();
}

}  // namespace uroce::nic
