// SPDX-License-Identifier: Apache-2.0
// One NIC of the daemon: its port, its addresses, and what programs are told of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/port.h"
#include "nic/config.h"
#include "nic/net/gid_table.h"
#include "pipeline/datapath/device.h"
#include "pipeline/transport/counters.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::drivers {
class FaultPort;
}

namespace uroce::nic {

/// Addresses come from the settings, and where there are none and a kernel interface stands behind
/// the port, from that interface. Control thread, but for `datapath`.
class NicDevice {
 public:
  /// `fault` is the port itself where it is one, or null.
  NicDevice(const DeviceConfig& config, uint32_t index, std::unique_ptr<drivers::Port> port,
            const drivers::FaultPort* fault = nullptr);

  /// Looks at the port and its interface again.
  struct Change {
    bool gids = false;
    bool link = false;
  };
  Change Refresh();

  const std::string& name() const { return config_.name; }
  const DeviceConfig& config() const { return config_; }
  const drivers::PortInfo& info() const { return info_; }
  const GidTable& gids() const { return gids_; }
  uroce_port_info PortAttributes() const;
  uroce_device_info DeviceInfo(const Limits& limits) const;
  drivers::Port& port() const { return *port_; }
  const drivers::FaultPort* fault_port() const { return fault_port_; }
  /// What the connections that are gone had counted.
  transport::RcCounters& ended_counters() { return ended_counters_; }
  const transport::RcCounters& ended_counters() const { return ended_counters_; }
  datapath::Device& datapath() { return datapath_; }
  const datapath::Device& datapath() const { return datapath_; }

 private:
  drivers::PortInfo ReadInfo() const;
  std::vector<InterfaceAddress> ReadAddresses() const;

  DeviceConfig config_;
  std::unique_ptr<drivers::Port> port_;
  const drivers::FaultPort* fault_port_;
  drivers::PortInfo info_;
  GidTable gids_;
  transport::RcCounters ended_counters_;
  datapath::Device datapath_;
};

}  // namespace uroce::nic
