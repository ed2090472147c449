// SPDX-License-Identifier: Apache-2.0
// One NIC of the daemon: its port, its addresses, and what programs are told of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "drivers/port.h"
#include "nic/base/fd.h"
#include "nic/devices/kernel_network.h"
#include "nic/net/gid_table.h"
#include "nic/net/kernel_groups.h"
#include "nic/net/net_device.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/port/device.h"
#include "pipeline/datapath/port/gsi_link.h"
#include "pipeline/datapath/port/host_link.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::drivers {
class FaultPort;
}

namespace uroce::nic {

/// Queue pairs in one group of a device: a packet to it is copied for each.
inline constexpr uint32_t kMaxGroupMembers = 64;

/// Addresses come from the settings, and where there are none and a kernel interface stands behind
/// the port, from that interface. Of a port that is a host of its own, they are used as far as
/// nobody else has them. Control thread, but for `datapath`.
class NicDevice final : public NetDevice {
 public:
  /// For so many workers. `fault` is the port itself where it is one, or null.
  NicDevice(const DeviceConfig& config, uint32_t index, std::unique_ptr<drivers::Port> port,
            uint32_t workers, drivers::FaultPort* fault = nullptr);

  /// Looks at the port and its interface again. Nic::Refresh tells the workers what they must know.
  struct Change {
    bool gids = false;
    bool link = false;
    bool why_down = false;  ///< Down, for a reason that is new.
    bool mac = false;
    bool interface = false;  ///< It went, or another one has its name now.
  };
  Change Refresh();
  /// Whether every VLAN of the given addresses has an interface, where the kernel is asked for
  /// neighbours. Errors: one line with the command that adds it.
  absl::Status CheckVlans() const;
  /// Whether the kernel leaves the port's addresses to us. Errors: one line with the command that
  /// has it do so.
  absl::Status CheckHost() const;

  // ---- NetDevice ----
  const std::string& name() const override { return config_.name; }
  uint32_t index() const override { return datapath_.index(); }
  const Mac& mac() const override { return info_.mac; }
  bool link_up() const override { return info_.link_up; }
  int wire() const override { return config_.wire; }
  bool at_switch() const override { return config_.at_switch >= 0; }
  bool is_host() const override { return is_host_; }
  int InterfaceOf(uint16_t vlan_id) const override { return network_.InterfaceOf(vlan_id); }
  const GidTable& gids() const override { return gids_; }
  const std::vector<Route>& routes() const override { return config_.routes; }

  const DeviceConfig& config() const { return config_; }
  const drivers::PortInfo& info() const { return info_; }
  /// Frames that are not RoCE; null where only the kernel sees them.
  datapath::HostLink* host_link() const { return host_link_.get(); }
  /// Datagrams of queue pair 1.
  datapath::GsiLink& gsi_link() const { return *gsi_link_; }
  /// The TAP of the exception path, or -1.
  int tap() const { return tap_.get(); }
  /// Opens the exception path's TAP, where there is to be one; from then on it is the port's kernel
  /// interface. Before a worker has the device. Errors: one line that names it.
  absl::Status OpenException();
  /// Has the kernel know the port's addresses, where the settings say so. Errors: one line that
  /// names the interface.
  absl::Status OpenAddressTap();
  /// Those of the given addresses that may be used; effective with the next Refresh.
  void SetUsableAddresses(std::vector<InterfaceAddress> addresses) {
    usable_addresses_ = std::move(addresses);
  }
  /// Has the port be in a multicast group, until as many calls of LeaveGroup: on Ethernet, where
  /// routers and switches may have to know, and by its filter. Which queue pairs get what is sent
  /// to the group, `datapath` says. Errors: InvalidArgument, no group's address; ResourceExhausted;
  /// Unavailable, of the kernel.
  absl::Status JoinGroup(const Gid& group);
  /// Range: JoinGroup was called for it.
  void LeaveGroup(const Gid& group);
  /// Groups that the port is in, and how often each was joined.
  const std::map<Gid, uint32_t>& groups() const { return groups_; }
  /// Told of each group that the port joins or leaves. For a host of the daemon's own.
  void OnGroups(std::function<void(const Gid& group, bool joined)> listener) {
    on_group_ = std::move(listener);
  }
  /// Whether packets of this traffic class say that switches may mark them.
  bool IsEcnCapable(uint8_t traffic_class) const;
  uroce_port_info PortAttributes() const;
  uroce_device_info DeviceInfo(const Limits& limits) const;
  drivers::Port& port() const { return *port_; }
  drivers::FaultPort* fault_port() const { return fault_port_; }
  /// `text` says the faults from now on; see drivers::ParseFault. "" for none.
  void ShowFault(std::string text) {
    has_had_faults_ |= !text.empty();
    config_.fault = std::move(text);
  }
  /// Congestion control from now on; connections that are there keep their profile. While all
  /// workers stand still.
  void SetCongestion(const DeviceConfig& config);
  bool has_had_faults() const { return has_had_faults_; }
  /// Has the workers know the addresses of the GID table. While all stand still, or before they
  /// have the device.
  void ShowAddresses();
  /// What the queue pairs that are gone had counted.
  datapath::Counters& ended_counters() { return ended_counters_; }
  const datapath::Counters& ended_counters() const { return ended_counters_; }
  datapath::Device& datapath() { return datapath_; }
  const datapath::Device& datapath() const { return datapath_; }

 private:
  drivers::PortInfo ReadInfo() const;
  void ConfigureCongestion();
  void MakeHostLink(datapath::HostLink::Takes takes, uint32_t depth_frames);
  void RefreshNetwork();
  /// Has the kernel know the groups, on the interfaces that there are now.
  absl::Status ShowGroups();
  const std::vector<InterfaceAddress>& Addresses() const;

  DeviceConfig config_;
  std::unique_ptr<drivers::Port> port_;
  drivers::FaultPort* const fault_port_;
  bool has_had_faults_;
  Fd tap_;          ///< Of the exception path.
  Fd address_tap_;  ///< Its interface has the port's addresses.
  drivers::PortInfo info_;
  uint64_t node_guid_;  ///< That of the first MAC: it names the device for as long as it is there.
  KernelNetwork network_;
  std::unique_ptr<datapath::HostLink> host_link_;
  std::unique_ptr<datapath::GsiLink> gsi_link_ = std::make_unique<datapath::GsiLink>();
  bool is_host_ = false;
  std::vector<InterfaceAddress> usable_addresses_;  ///< Of a host.
  GidTable gids_;
  std::map<Gid, uint32_t> groups_;
  KernelGroups kernel_groups_{KernelGroups::How::kJoin};
  std::function<void(const Gid&, bool)> on_group_;
  datapath::Counters ended_counters_;
  datapath::Device datapath_;
};

}  // namespace uroce::nic
