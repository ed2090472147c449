// SPDX-License-Identifier: Apache-2.0
// One NIC of the daemon: its port, its addresses, and the attributes that programs query.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nic/devices/kernel_network.h"
#include "nic/devices/multicast_groups.h"
#include "nic/net/net_device.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {
struct FaultConfig;
class FaultPort;
}  // namespace uroce::drivers

namespace uroce::datapath {
class GsiLink;
class HostLink;
}  // namespace uroce::datapath

namespace uroce::nic {

struct PortAddition;

/// The port of a NIC, until it is taken away, and the port that drops all, which stands for it
/// then. Control thread.
class RemovablePort {
 public:
  /// `fault` is the port itself if it injects faults, or null.
  RemovablePort(std::unique_ptr<drivers::Port> port, drivers::FaultPort* fault);

  /// Until Take.
  drivers::Port& get() const { return *port_; }
  drivers::FaultPort* fault() const { return fault_; }
  drivers::Port* absent() const { return absent_.get(); }
  std::unique_ptr<drivers::Port> Take() {
    fault_ = nullptr;
    return std::exchange(port_, nullptr);
  }

 private:
  std::unique_ptr<drivers::Port> port_;
  const std::unique_ptr<drivers::Port> absent_;
  drivers::FaultPort* fault_;
};

/// What a look at the port and its interface has found.
struct DeviceChange {
  bool gids = false;
  bool link = false;
  bool why_down = false;  ///< The link is down for a new reason.
  bool mac = false;
  bool speed = false;      ///< That of the link, or the rate limit.
  bool interface = false;  ///< The interface went, or another one has its name.
};

/// Addresses come from the settings; if these name none and the port has a kernel interface, they
/// come from that interface. A port that is its own host uses those addresses that no other host
/// has. Control thread, except `datapath`.
class NicDevice final : public NetDevice, public std::enable_shared_from_this<NicDevice> {
 public:
  /// `workers`: their number. `fault` is the port itself if it injects faults, or null.
  NicDevice(const DeviceConfig& config, uint32_t index, std::unique_ptr<drivers::Port> port,
            uint32_t workers, drivers::FaultPort* fault = nullptr);
  ~NicDevice() override;

  /// Opens the exception path's TAP if one is configured, from then on the port's kernel interface,
  /// and checks that the kernel has the VLANs of the given addresses, or, on a port that is its own
  /// host, no addresses. Call it before a worker has the device. Errors: one line.
  absl::Status ConnectToKernel();
  /// Adds the port's addresses to the kernel by a TAP, if configured. Errors: one line that names
  /// the interface.
  absl::Status OpenAddressTap();

  // ---- NetDevice ----
  const std::string& name() const override { return config_.name; }
  uint32_t index() const override { return datapath_.index(); }
  const Mac& mac() const override { return info_.mac; }
  bool link_up() const override { return info_.link_up; }
  int wire() const override { return config_.cable() ? config_.cable()->cable : -1; }
  bool at_switch() const override { return config_.at_switch() != nullptr; }
  bool IsEcnCapable(uint8_t traffic_class) const override;
  bool is_host() const override { return is_host_; }
  std::optional<Mac> peer_mac() const override { return info_.peer_mac; }
  int InterfaceOf(uint16_t vlan_id) const override {
    return is_removed_ ? 0 : kernel_.InterfaceOf(vlan_id);
  }
  const GidTable& gids() const override { return gids_; }
  const std::vector<Route>& routes() const override { return config_.routes; }

  // ---- what it is ----
  const DeviceConfig& config() const { return config_; }
  const drivers::PortInfo& info() const { return info_; }
  uint64_t node_guid() const { return node_guid_; }
  const KernelNetwork& kernel() const { return kernel_; }
  /// The kernel's interface whose filter and name the addresses of this VLAN have, also on a port
  /// that is its own host; 0 for none.
  int AddressInterfaceOf(uint16_t vlan_id) const {
    return is_host_ ? info_.ifindex : InterfaceOf(vlan_id);
  }
  /// How often the link went down.
  uint64_t link_downed() const { return link_downed_; }
  /// The fault port, also where no fault is set; null if the port cannot inject any. While the
  /// device was not removed.
  drivers::FaultPort* fault_port() const { return port_.fault(); }
  bool has_had_faults() const { return has_had_faults_; }
  /// The sum of the counters of the queue pairs that are gone.
  datapath::Counters& ended_counters() { return ended_counters_; }
  const datapath::Counters& ended_counters() const { return ended_counters_; }
  /// While the device was not removed.
  drivers::Port& port() const { return port_.get(); }
  datapath::Device& datapath() { return datapath_; }
  const datapath::Device& datapath() const { return datapath_; }

  // ---- what changes ----
  /// Reads the port and its interface again. Nic::Refresh passes the changes on to the workers.
  DeviceChange Refresh();
  /// Passes the addresses of the GID table to the workers. Call it while all workers stand still,
  /// or before they have the device.
  void ShowAddresses();
  /// Sets those of the given addresses that may be used; they take effect at the next Refresh.
  void SetUsableAddresses(std::vector<InterfaceAddress> addresses) {
    usable_addresses_ = std::move(addresses);
  }
  MulticastGroups& groups() { return groups_; }
  const MulticastGroups& groups() const { return groups_; }

  // ---- settings from now on; while all workers stand still ----
  /// Connections that are there keep their profile.
  void SetCongestion(const CongestionConfig& config);
  /// What the NIC sends at most; 0: no limit.
  void SetRate(uint64_t bps);
  void SetFaults(const drivers::FaultConfig& faults);

  // ---- ports that come and go ----
  /// What the command said that added the port, one object for both ends of a wire; null for ports
  /// of the start.
  const std::shared_ptr<const PortAddition>& addition() const { return addition_; }
  void SetAddition(std::shared_ptr<const PortAddition> addition) {
    addition_ = std::move(addition);
  }
  /// The port is about to be removed: from now on it has no link and no interface, and leaves its
  /// groups. Programs may still hold the device, to end their objects.
  void MarkRemoved();
  bool is_removed() const { return is_removed_; }
  /// Cancelled once the port was removed.
  absl::Status CheckThere() const;
  /// The port, to be taken away once no worker uses it any more: Workers::UnplugDevice.
  RemovablePort& removable_port() { return port_; }

 private:
  drivers::PortInfo ReadInfo() const;
  /// True: the speed has changed since the last call.
  bool NoteSpeed();
  void ConfigureCongestion();
  void MakeHostLink(bool takes_everything, uint32_t depth_frames);
  absl::Status OpenException();
  void RefreshNetwork();
  const std::vector<InterfaceAddress>& Addresses() const;

  DeviceConfig config_;
  RemovablePort port_;
  std::shared_ptr<const PortAddition> addition_;
  bool is_removed_ = false;
  bool has_had_faults_;
  uint64_t link_downed_ = 0;
  KernelNetwork kernel_;
  drivers::PortInfo info_;
  uint64_t speed_bps_ = 0;    // uroce_port_info::speed_bps, as NoteSpeed saw it last.
  const uint64_t node_guid_;  ///< From the first MAC: it names the device for its whole life.
  const bool is_host_;
  std::vector<InterfaceAddress> usable_addresses_;  ///< If the port is a host.
  GidTable gids_;
  MulticastGroups groups_;
  std::unique_ptr<datapath::HostLink> host_link_;  ///< For frames that are not RoCE; or null.
  std::unique_ptr<datapath::GsiLink> gsi_link_;    ///< For datagrams of queue pair 1.
  datapath::Counters ended_counters_;
  datapath::Device datapath_;
};

}  // namespace uroce::nic
