// SPDX-License-Identifier: Apache-2.0
// One NIC of the daemon: its port, its addresses, and the attributes that programs query.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nic/devices/kernel_network.h"
#include "nic/net/kernel_resources.h"
#include "nic/net/net_device.h"
#include "nic/settings/config.h"
#include "nic/settings/port_settings.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/port.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::drivers {

// One NIC of the daemon: its port, its addresses, and the attributes that programs query.

class FaultPort;
}  // namespace uroce::drivers

namespace uroce::nic {

/// The most queue pairs in one group of a device: a packet to the group is copied for each.
inline constexpr uint32_t kMaxGroupMembers = 64;

/// Addresses come from the settings; if these name none and the port has a kernel interface, they
/// come from that interface. A port that is a host of its own uses those addresses that no other
/// host has. Control thread, except `datapath`.
class NicDevice final : public NetDevice, public std::enable_shared_from_this<NicDevice> {
 public:
  /// `workers`: their number. `fault` is the port itself if it injects faults, or null.
  NicDevice(const DeviceConfig& config, uint32_t index, std::unique_ptr<drivers::Port> port,
            uint32_t workers, drivers::FaultPort* fault = nullptr);

  /// Reads the port and its interface again. Nic::Refresh passes the changes on to the workers.
  struct Change {
    bool gids = false;
    bool link = false;
    bool why_down = false;  ///< The link is down for a new reason.
    bool mac = false;
    bool interface = false;  ///< The interface went, or another one has its name.
  };
  Change Refresh();
  /// Checks that every VLAN of the given addresses has an interface, if the kernel resolves
  /// neighbours. Errors: one line with the command that adds it.
  absl::Status CheckVlans() const;
  /// Checks that the kernel does not handle the port's addresses itself. Errors: one line with the
  /// command that stops it.
  absl::Status CheckHost() const;

  // ---- NetDevice ----
  const std::string& name() const override { return config_.name; }
  uint32_t index() const override { return datapath_.index(); }
  const Mac& mac() const override { return info_.mac; }
  bool link_up() const override { return info_.link_up; }
  int wire() const override { return config_.cable() ? config_.cable()->cable : -1; }
  bool at_switch() const override { return config_.at_switch() != nullptr; }
  bool is_host() const override { return is_host_; }
  std::optional<Mac> peer_mac() const override { return info_.peer_mac; }
  int InterfaceOf(uint16_t vlan_id) const override {
    return is_removed_ ? 0 : network_.InterfaceOf(vlan_id);
  }
  const GidTable& gids() const override { return gids_; }
  const std::vector<Route>& routes() const override { return config_.routes; }

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
  /// Gives the port away, for which another one stands that drops all. No worker uses the port any
  /// more: Workers::UnplugDevice, with absent_port().
  std::unique_ptr<drivers::Port> TakePort();
  drivers::Port* absent_port() { return absent_port_.get(); }

  const DeviceConfig& config() const { return config_; }
  const drivers::PortInfo& info() const { return info_; }
  /// The link for frames that are not RoCE; null if only the kernel sees them.
  datapath::HostLink* host_link() const { return host_link_.get(); }
  /// The link for datagrams of queue pair 1.
  datapath::GsiLink& gsi_link() const { return *gsi_link_; }
  /// The fd of the exception path's TAP, or -1.
  int tap() const { return tap_.get(); }
  /// Opens the exception path's TAP if one is configured; from then on it is the port's kernel
  /// interface. Call it before a worker has the device. Errors: one line that names the TAP.
  absl::Status OpenException();
  /// Adds the port's addresses to the kernel by a TAP, if configured. Errors: one line that names
  /// the interface.
  absl::Status OpenAddressTap();
  /// Sets those of the given addresses that may be used; they take effect at the next Refresh.
  void SetUsableAddresses(std::vector<InterfaceAddress> addresses) {
    usable_addresses_ = std::move(addresses);
  }
  /// Joins a multicast group, until LeaveGroup was called as often: on Ethernet, where routers and
  /// switches may have to know, and in the port's filter. `datapath` says which queue pairs get the
  /// packets of the group. Errors: InvalidArgument: not the address of a group; ResourceExhausted;
  /// Unavailable: the kernel refused.
  absl::Status JoinGroup(const Gid& group);
  /// Range: JoinGroup was called for `group`.
  void LeaveGroup(const Gid& group);
  /// The groups that the port is in, and how often each was joined.
  const std::map<Gid, uint32_t>& groups() const { return groups_; }
  /// Sets the listener for groups that the port joins or leaves, for a host of the daemon's own.
  void OnGroups(std::function<void(const Gid& group, bool joined)> listener) {
    on_group_ = std::move(listener);
  }
  /// Whether packets of this traffic class allow switches to mark them (ECN-capable transport).
  bool IsEcnCapable(uint8_t traffic_class) const;
  uroce_port_info PortAttributes() const;
  uroce_device_info DeviceInfo(const Limits& limits) const;
  /// While it was not removed.
  drivers::Port& port() const { return *port_; }
  drivers::FaultPort* fault_port() const { return fault_port_; }
  /// Records the current faults.
  void ShowFault(drivers::FaultConfig fault) {
    has_had_faults_ |= !fault.text.empty();
    config_.fault = std::move(fault);
  }
  /// Congestion control from now on; connections that are there keep their profile. While all
  /// workers stand still.
  void SetCongestion(const CongestionConfig& config);
  /// What the NIC sends at most from now on; 0: no limit. While all workers stand still.
  void SetRate(uint64_t bps);
  bool has_had_faults() const { return has_had_faults_; }
  /// How often the link went down.
  uint64_t link_downed() const { return link_downed_; }
  /// Passes the addresses of the GID table to the workers. Call it while all workers stand still,
  /// or before they have the device.
  void ShowAddresses();
  /// The sum of the counters of the queue pairs that are gone.
  datapath::Counters& ended_counters() { return ended_counters_; }
  const datapath::Counters& ended_counters() const { return ended_counters_; }
  datapath::Device& datapath() { return datapath_; }
  const datapath::Device& datapath() const { return datapath_; }

 private:
  drivers::PortInfo ReadInfo() const;
  void ConfigureCongestion();
  void MakeHostLink(datapath::HostLink::Takes takes, uint32_t depth_frames);
  void RefreshNetwork();
  /// Joins the groups in the kernel, on the interfaces that exist now.
  absl::Status ShowGroups();
  const std::vector<InterfaceAddress>& Addresses() const;

  DeviceConfig config_;
  std::unique_ptr<drivers::Port> port_;
  std::unique_ptr<drivers::Port> absent_port_;
  drivers::FaultPort* fault_port_;
  std::shared_ptr<const PortAddition> addition_;
  bool is_removed_ = false;
  bool has_had_faults_;
  uint64_t link_downed_ = 0;
  Fd tap_;          ///< Of the exception path.
  Fd address_tap_;  ///< Its interface has the port's addresses.
  drivers::PortInfo info_;
  uint64_t node_guid_;  ///< From the first MAC: it names the device for its whole life.
  KernelNetwork network_;
  std::unique_ptr<datapath::HostLink> host_link_;
  std::unique_ptr<datapath::GsiLink> gsi_link_ = std::make_unique<datapath::GsiLink>();
  bool is_host_ = false;
  std::vector<InterfaceAddress> usable_addresses_;  ///< If the port is a host.
  GidTable gids_;
  std::map<Gid, uint32_t> groups_;
  KernelGroups kernel_groups_{KernelGroups::How::kJoin};
  std::function<void(const Gid&, bool)> on_group_;
  datapath::Counters ended_counters_;
  datapath::Device datapath_;
};

// The GID table of a device in the form that programs get.

/// Returns every slot, including empty ones.
std::vector<uroce_gid_entry> GidEntries(const NicDevice& device);

}  // namespace uroce::nic
