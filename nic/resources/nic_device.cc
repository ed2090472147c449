// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/nic_device.h"

#include <algorithm>
#include <cstdio>

#include "nic/net/interface_addresses.h"
#include "nic/net/port_attributes.h"
#include "nic/resources/modify_rules.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kMaxMessageBytes = 1u << 31;  // IBTA vol. 1, 9.7.1.5: the limit of a message.
constexpr uint32_t kAckDelayCode = 15;           // 134 ms: what a loaded host may take to answer.

}  // namespace

NicDevice::NicDevice(const DeviceConfig& config, uint32_t index,
                     std::unique_ptr<drivers::Port> port, const drivers::FaultPort* fault)
    : config_(config),
      port_(std::move(port)),
      fault_port_(fault),
      info_(ReadInfo()),
      gids_(info_.mac),
      datapath_(config.name, index, port_.get()) {
  datapath_.mac = info_.mac;
  gids_.Update(ReadAddresses());
}

NicDevice::Change NicDevice::Refresh() {
  const bool was_up = info_.link_up;
  const Mac mac = info_.mac;
  info_ = ReadInfo();
  info_.mac = mac;  // Frames for another MAC would not be ours: it holds until the next start.
  return {.gids = gids_.Update(ReadAddresses()), .link = info_.link_up != was_up};
}

uroce_port_info NicDevice::PortAttributes() const { return nic::PortAttributes(info_); }

uroce_device_info NicDevice::DeviceInfo(const Limits& limits) const {
  uroce_device_info info{};
  std::snprintf(info.name, sizeof(info.name), "%s", config_.name.c_str());
  std::snprintf(info.firmware, sizeof(info.firmware), "%s", UROCE_VERSION);
  info.node_guid = NodeGuid(info_.mac);
  info.max_mr_size = UINT64_MAX;
  info.max_qp = limits.qps;
  info.max_qp_wr = limits.qp_wr;
  info.max_sge = UROCE_MAX_SGE;
  info.max_inline = UROCE_MAX_INLINE;
  info.max_cq = limits.cqs;
  info.max_cqe = limits.cqe;
  info.max_mr = limits.mrs;
  info.max_pd = limits.pds;
  info.max_ah = limits.ahs;
  info.max_qp_rd_atom = kMaxRdAtomic;
  info.max_msg_size = kMaxMessageBytes;
  info.gid_table_length = GidTable::kLength;
  info.local_ca_ack_delay = kAckDelayCode;
  return info;
}

drivers::PortInfo NicDevice::ReadInfo() const {
  drivers::PortInfo info = port_->Info();
  if (config_.mtu_bytes != 0) info.mtu_bytes = config_.mtu_bytes;
  return info;
}

std::vector<InterfaceAddress> NicDevice::ReadAddresses() const {
  if (!config_.addresses.empty() || info_.interface.empty()) return config_.addresses;
  return InterfaceAddresses(info_.interface);
}

}  // namespace uroce::nic
