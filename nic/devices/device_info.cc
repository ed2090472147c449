// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/device_info.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "nic/devices/modify_rules.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "pipeline/transport/work.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kAckDelayCode = 15;  // 134 ms: a loaded host may need it to answer.

}  // namespace

uroce_device_info DeviceInfo(const NicDevice& device, const Limits& limits) {
  uroce_device_info info{};
  std::snprintf(info.name, sizeof(info.name), "%s", device.name().c_str());
  info.index = device.index();
  std::snprintf(info.firmware, sizeof(info.firmware), "%s", UROCE_VERSION);
  info.node_guid = device.node_guid();
  info.max_mr_size = UINT64_MAX;
  for (const KindRow& kind : kKinds) {
    if (kind.info != nullptr) info.*kind.info = limits.kinds.of(kind.kind).of_program;
  }
  info.max_qp_wr = MostEntries(limits.qp_wr);
  info.max_sge = UROCE_MAX_SGE;
  info.max_inline = UROCE_MAX_INLINE;
  info.max_cqe = MostEntries(limits.cqe);
  info.max_mcast_groups = limits.attachments_per_user;
  info.max_mcast_members = kMaxGroupMembers;
  info.max_pd = limits.pds;
  info.max_qp_rd_atom = kMaxRdAtomic;
  info.max_msg_size = transport::kMaxMessageBytes;
  info.gid_table_length = GidTable::kLength;
  info.local_ca_ack_delay = kAckDelayCode;
  return info;
}

std::vector<uroce_gid_entry> GidEntries(const NicDevice& device) {
  std::vector<uroce_gid_entry> entries(GidTable::kLength);
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    uroce_gid_entry& entry = entries[index];
    entry.index = index;
    const std::optional<GidEntry> gid = device.gids().At(index);
    if (!gid) continue;
    std::copy(gid->gid.bytes.begin(), gid->gid.bytes.end(), entry.gid);
    entry.valid = 1;
    entry.type = IBV_GID_TYPE_ROCE_V2;
    entry.ifindex = static_cast<uint32_t>(device.InterfaceOf(gid->vlan_id));
  }
  return entries;
}

}  // namespace uroce::nic
