// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/nic_device.h"

#include <net/if.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "drivers/fault/fault_port.h"
#include "nic/base/log.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/datapath/frames/frame_link.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kHostDepthFrames = 128;
constexpr uint32_t kExceptionDepthFrames = 512;  // As long as a TAP's queue.

bool IsHost(const DeviceConfig& config, const drivers::PortInfo& info) {
  const bool has_kernel = !info.interface.empty() && !config.own_host;
  return config.cable() == nullptr && config.exception.empty() && !has_kernel;
}

}  // namespace

RemovablePort::RemovablePort(std::unique_ptr<drivers::Port> port, drivers::FaultPort* fault)
    : port_(std::move(port)), absent_(std::make_unique<drivers::AbsentPort>()), fault_(fault) {}

NicDevice::NicDevice(const DeviceConfig& config, uint32_t index,
                     std::unique_ptr<drivers::Port> port, uint32_t workers,
                     drivers::FaultPort* fault)
    : config_(config),
      port_(std::move(port), fault),
      has_had_faults_(!config_.fault.text.empty()),
      info_(ReadInfo()),
      node_guid_(NodeGuid(info_.mac)),
      is_host_(IsHost(config_, info_)),
      gids_(info_.mac),
      groups_(*this, is_host_ ? KernelGroups::How::kFilter : KernelGroups::How::kJoin,
              [this](uint16_t vlan_id) { return AddressInterfaceOf(vlan_id); }),
      gsi_link_(std::make_unique<datapath::GsiLink>()),
      datapath_(config.name, index, &port_.get(), workers) {
  datapath_.mac = info_.mac;
  datapath_.gsi_link = gsi_link_.get();
  datapath_.SetRate(config_.rate_bps);
  ConfigureCongestion();
  if (is_host_) MakeHostLink(/*takes_everything=*/false, kHostDepthFrames);
  RefreshNetwork();
  gids_.Update(info_.mac, Addresses());
  ShowAddresses();
  NoteSpeed();
}

NicDevice::~NicDevice() = default;

// Devices without a known speed, or with a nominal one, are faster than a worker can
// send.
void NicDevice::ConfigureCongestion() {
  constexpr uint64_t kUnknownSpeed = 100'000'000'000;
  uint64_t line_bps = info_.speed_bps == 0 ? kUnknownSpeed : info_.speed_bps;
  if (config_.rate_bps != 0) line_bps = std::min(line_bps, config_.rate_bps);
  datapath_.SetCongestionOfPriorities(CongestionOfPriorities(config_), line_bps);
}

bool NicDevice::IsEcnCapable(uint8_t traffic_class) const {
  return nic::IsEcnCapable(config_, traffic_class);
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

void NicDevice::SetFaults(const drivers::FaultConfig& faults) {
  fault_port()->Set(faults);
  has_had_faults_ |= !faults.text.empty();
  config_.fault = faults;
}

void NicDevice::ShowAddresses() {
  datapath_.addresses.clear();
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> entry = gids_.At(index);
    if (entry) datapath_.addresses.push_back({entry->gid, entry->vlan_id});
  }
}

DeviceChange NicDevice::Refresh() {
  drivers::PortInfo info = ReadInfo();
  // An interface that is gone has no MAC and MTU: the device keeps the last known ones.
  if (!info.interface.empty() && info.ifindex == 0) {
    info.mac = info_.mac;
    info.mtu_bytes = info_.mtu_bytes;
  }
  const drivers::PortInfo before = std::exchange(info_, std::move(info));
  if (before.link_up && !info_.link_up) ++link_downed_;
  if (info_.link_up != before.link_up) kernel_.ShowCarrier(info_.link_up);
  RefreshNetwork();
  const DeviceChange change{.gids = gids_.Update(info_.mac, Addresses()),
                            .link = info_.link_up != before.link_up,
                            .why_down = !info_.link_up && info_.why_down != before.why_down,
                            .mac = info_.mac != before.mac,
                            .speed = info_.link_up && NoteSpeed(),
                            .interface = info_.ifindex != before.ifindex};
  if (change.gids || change.interface) {
    if (absl::Status status = groups_.Refresh(); !status.ok()) {
      LogWarning("{}: {}", name(), std::string(status.message()));
    }
  }
  return change;
}

bool NicDevice::NoteSpeed() {
  const uint64_t before =
      std::exchange(speed_bps_, PortAttributes(info_, config_.rate_bps).speed_bps);
  return before != speed_bps_;
}

void NicDevice::MarkRemoved() {
  is_removed_ = true;
  info_.link_up = false;
  info_.why_down = "the port was removed";
  groups_.Stop();
  kernel_.Release();
}

absl::Status NicDevice::CheckThere() const {
  if (!is_removed_) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(name(), " was removed"));
}

absl::Status NicDevice::ConnectToKernel() {
  if (absl::Status status = OpenException(); !status.ok()) return status;
  return is_host_ ? CheckNoAddresses(info_) : CheckVlans(kernel_, info_, config_.addresses);
}

absl::Status NicDevice::OpenException() {
  if (config_.exception.empty()) return absl::OkStatus();
  const absl::Status status = kernel_.OpenExceptionTap(config_.exception, info_);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("exception=", status.message()));
  }
  MakeHostLink(/*takes_everything=*/true, kExceptionDepthFrames);
  Refresh();
  ShowAddresses();
  return absl::OkStatus();
}

absl::Status NicDevice::OpenAddressTap() {
  if (!config_.wire_interface) return absl::OkStatus();
  return kernel_.OpenAddressTap(config_.name, info_, config_.addresses);
}

drivers::PortInfo NicDevice::ReadInfo() const {
  drivers::PortInfo info = port_.get().Info();
  if (config_.mtu_bytes != 0) info.mtu_bytes = std::min(info.mtu_bytes, config_.mtu_bytes);
  if (kernel_.has_exception_tap()) {
    info.interface = config_.exception;
    info.ifindex = static_cast<int>(if_nametoindex(config_.exception.c_str()));
  }
  return info;
}

void NicDevice::MakeHostLink(bool takes_everything, uint32_t depth_frames) {
  using Takes = datapath::HostLink::Takes;
  host_link_ = std::make_unique<datapath::HostLink>(
      takes_everything ? Takes::kEverything : Takes::kHostProtocols, depth_frames);
  datapath_.host_link = host_link_.get();
}

void NicDevice::RefreshNetwork() {
  if (is_host_ || info_.interface.empty()) return;
  const auto vlans = info_.peer_mac ? KernelNetwork::Vlans::kNone : KernelNetwork::Vlans::kServed;
  kernel_.Refresh(info_.ifindex, info_.mac, vlans);
}

const std::vector<InterfaceAddress>& NicDevice::Addresses() const {
  if (is_host_) return usable_addresses_;
  const bool given = !config_.addresses.empty() || info_.interface.empty();
  return given ? config_.addresses : kernel_.addresses();
}

}  // namespace uroce::nic
