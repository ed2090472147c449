// SPDX-License-Identifier: Apache-2.0
// One NIC of the daemon: its port, its addresses, and the attributes that programs query.
#include "nic/devices/nic_device.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/modify_rules.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/net/kernel_resources.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/port/port.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxGroups = 4096;  // Each may need an fd per VLAN.
constexpr uint32_t kHostDepthFrames = 128;
constexpr uint32_t kExceptionDepthFrames = 512;  // As long as a TAP's queue.
constexpr uint32_t kAckDelayCode = 15;           // 134 ms: a loaded host may need it to answer.

bool IsHost(const DeviceConfig& config, const drivers::PortInfo& info) {
  const bool has_kernel = !info.interface.empty() && !config.own_host;
  return config.cable() == nullptr && config.exception.empty() && !has_kernel;
}

}  // namespace

NicDevice::NicDevice(const DeviceConfig& config, uint32_t index,
                     std::unique_ptr<drivers::Port> port, uint32_t workers,
                     drivers::FaultPort* fault)
    : config_(config),
      port_(std::move(port)),
      absent_port_(std::make_unique<drivers::AbsentPort>()),
      fault_port_(fault),
      has_had_faults_(!config_.fault.text.empty()),
      info_(ReadInfo()),
      node_guid_(NodeGuid(info_.mac)),
      gids_(info_.mac),
      kernel_groups_(IsHost(config_, info_) ? KernelGroups::How::kFilter
                                            : KernelGroups::How::kJoin),
      datapath_(config.name, index, port_.get(), workers) {
  datapath_.mac = info_.mac;
  datapath_.gsi_link = gsi_link_.get();
  is_host_ = IsHost(config_, info_);
  datapath_.SetRate(config_.rate_bps);
  ConfigureCongestion();
  if (is_host_) MakeHostLink(datapath::HostLink::Takes::kHostProtocols, kHostDepthFrames);
  RefreshNetwork();
  gids_.Update(info_.mac, Addresses());
  ShowAddresses();
}

// Devices without a known speed, or with a nominal one, are faster than a worker can
// send.
void NicDevice::ConfigureCongestion() {
  constexpr uint64_t kUnknownSpeed = 100'000'000'000;
  uint64_t line_bps = info_.speed_bps == 0 ? kUnknownSpeed : info_.speed_bps;
  if (config_.rate_bps != 0) line_bps = std::min(line_bps, config_.rate_bps);
  datapath_.SetCongestionOfPriorities(CongestionOfPriorities(config_), line_bps);
}

void NicDevice::SetCongestion(const CongestionConfig& config) {
  config_.congestion = config;
  ConfigureCongestion();
}

void NicDevice::SetRate(uint64_t bps) {
  config_.rate_bps = bps;
  datapath_.SetRate(bps);
  ConfigureCongestion();
}

bool NicDevice::IsEcnCapable(uint8_t traffic_class) const {
  const uint32_t priority = congestion::PriorityOf(traffic_class);
  const congestion::Settings settings = CongestionOfPriorities(config_)[priority];
  return congestion::Environment{.settings = settings, .priority = priority}.reacts();
}

void NicDevice::ShowAddresses() {
  datapath_.addresses.clear();
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> entry = gids_.At(index);
    if (entry) datapath_.addresses.push_back({entry->gid, entry->vlan_id});
  }
}

NicDevice::Change NicDevice::Refresh() {
  drivers::PortInfo info = ReadInfo();
  // An interface that is gone has no MAC and MTU: the device keeps the last known ones.
  if (!info.interface.empty() && info.ifindex == 0) {
    info.mac = info_.mac;
    info.mtu_bytes = info_.mtu_bytes;
  }
  const drivers::PortInfo before = std::exchange(info_, std::move(info));
  if (before.link_up && !info_.link_up) ++link_downed_;
  if (tap_ && info_.link_up != before.link_up) SetTapCarrier(tap_, info_.link_up);
  RefreshNetwork();
  const Change change{.gids = gids_.Update(info_.mac, Addresses()),
                      .link = info_.link_up != before.link_up,
                      .why_down = !info_.link_up && info_.why_down != before.why_down,
                      .mac = info_.mac != before.mac,
                      .interface = info_.ifindex != before.ifindex};
  if (change.gids || change.interface) {
    if (absl::Status status = ShowGroups(); !status.ok()) {
      spdlog::warn("{}: {}", name(), std::string(status.message()));
    }
  }
  return change;
}

void NicDevice::MarkRemoved() {
  is_removed_ = true;
  info_.link_up = false;
  info_.why_down = "the port was removed";
  on_group_ = nullptr;
  static_cast<void>(kernel_groups_.Set({}));
}

absl::Status NicDevice::CheckThere() const {
  if (!is_removed_) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(name(), " was removed"));
}

std::unique_ptr<drivers::Port> NicDevice::TakePort() {
  fault_port_ = nullptr;
  return std::exchange(port_, nullptr);
}

absl::Status NicDevice::JoinGroup(const Gid& group) {
  if (absl::Status status = CheckThere(); !status.ok()) return status;
  if (!IsMulticast(group)) {
    return absl::InvalidArgumentError(absl::StrCat(FormatAddress(group), " is no multicast group"));
  }
  const auto found = groups_.find(group);
  if (found != groups_.end()) {
    ++found->second;
    return absl::OkStatus();
  }
  if (groups_.size() == kMaxGroups) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name(), ": all ", kMaxGroups, " multicast groups are in use"));
  }
  groups_[group] = 1;
  if (absl::Status status = ShowGroups(); !status.ok()) {
    groups_.erase(group);
    static_cast<void>(ShowGroups());
    return status;
  }
  if (on_group_) on_group_(group, true);
  return absl::OkStatus();
}

void NicDevice::LeaveGroup(const Gid& group) {
  const auto found = groups_.find(group);
  if (--found->second != 0) return;
  groups_.erase(found);
  static_cast<void>(ShowGroups());
  if (on_group_) on_group_(group, false);
}

// Joins groups on all VLANs where the port has an address of the group's family.
absl::Status NicDevice::ShowGroups() {
  if (is_removed_) return absl::OkStatus();
  std::set<KernelGroups::Place> places;
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> own = gids_.At(index);
    if (!own) continue;
    const int ifindex = is_host_ ? info_.ifindex : InterfaceOf(own->vlan_id);
    if (ifindex == 0) continue;
    for (const auto& [group, joins] : groups_) {
      if (group.is_ipv4() == own->gid.is_ipv4()) places.emplace(ifindex, group);
    }
  }
  return kernel_groups_.Set(places);
}

absl::Status NicDevice::CheckVlans() const {
  for (const InterfaceAddress& address : config_.addresses) {
    if (is_host() || info_.interface.empty() || InterfaceOf(address.vlan_id) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ip \"", FormatInterfaceAddress(address), "\": ", info_.interface,
                     " has no such VLAN; add it by: ip link add link ", info_.interface, " name ",
                     info_.interface, ".", address.vlan_id, " type vlan id ", address.vlan_id));
  }
  return absl::OkStatus();
}

absl::Status NicDevice::OpenException() {
  if (config_.exception.empty()) return absl::OkStatus();
  absl::StatusOr<Fd> tap = OpenTap(config_.exception, info_.mac, info_.mtu_bytes);
  if (!tap.ok()) {
    return absl::Status(tap.status().code(), absl::StrCat("exception=", tap.status().message()));
  }
  tap_ = *std::move(tap);
  SetTapCarrier(tap_, info_.link_up);
  MakeHostLink(datapath::HostLink::Takes::kEverything, kExceptionDepthFrames);
  Refresh();
  ShowAddresses();
  return absl::OkStatus();
}

absl::Status NicDevice::OpenAddressTap() {
  if (!config_.wire_interface) return absl::OkStatus();
  absl::StatusOr<Fd> tap =
      nic::OpenAddressTap(config_.name, info_.mac, info_.mtu_bytes, config_.addresses);
  if (!tap.ok()) return tap.status();
  address_tap_ = *std::move(tap);
  return absl::OkStatus();
}

absl::Status NicDevice::CheckHost() const {
  if (!is_host() || info_.interface.empty()) return absl::OkStatus();
  KernelNetwork kernel;
  kernel.Refresh(info_.ifindex, info_.mac);
  for (const InterfaceAddress& address : kernel.addresses()) {
    if (IsLinkLocal(address.gid)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "host=uroce: the kernel has the address ", FormatInterfaceAddress(address), " on ",
        info_.interface, " and would answer too; take it away by: ip addr flush dev ",
        info_.interface, " scope global"));
  }
  return absl::OkStatus();
}

uroce_port_info NicDevice::PortAttributes() const { return nic::PortAttributes(info_); }

uroce_device_info NicDevice::DeviceInfo(const Limits& limits) const {
  uroce_device_info info{};
  std::snprintf(info.name, sizeof(info.name), "%s", config_.name.c_str());
  info.index = index();
  std::snprintf(info.firmware, sizeof(info.firmware), "%s", UROCE_VERSION);
  info.node_guid = node_guid_;
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

drivers::PortInfo NicDevice::ReadInfo() const {
  drivers::PortInfo info = port_->Info();
  if (config_.mtu_bytes != 0) info.mtu_bytes = std::min(info.mtu_bytes, config_.mtu_bytes);
  if (tap_) {
    info.interface = config_.exception;
    info.ifindex = static_cast<int>(if_nametoindex(config_.exception.c_str()));
  }
  return info;
}

void NicDevice::MakeHostLink(datapath::HostLink::Takes takes, uint32_t depth_frames) {
  host_link_ = std::make_unique<datapath::HostLink>(takes, depth_frames);
  datapath_.host_link = host_link_.get();
}

void NicDevice::RefreshNetwork() {
  if (is_host() || info_.interface.empty()) return;
  const auto vlans = info_.peer_mac ? KernelNetwork::Vlans::kNone : KernelNetwork::Vlans::kServed;
  network_.Refresh(info_.ifindex, info_.mac, vlans);
}

const std::vector<InterfaceAddress>& NicDevice::Addresses() const {
  if (is_host()) return usable_addresses_;
  const bool given = !config_.addresses.empty() || info_.interface.empty();
  return given ? config_.addresses : network_.addresses();
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
