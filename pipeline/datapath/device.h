// SPDX-License-Identifier: Apache-2.0
// One NIC as its worker sees it: a port, the addresses it answers to, its counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::drivers {
class Port;
}

namespace uroce::datapath {

class HostLink;

/// Per-device counters. Written by one worker with relaxed stores, read by control at any time.
struct DeviceCounters {
  std::atomic<uint64_t> port_rcv_packets{0};
  std::atomic<uint64_t> port_rcv_bytes{0};
  std::atomic<uint64_t> port_xmit_packets{0};
  std::atomic<uint64_t> port_xmit_bytes{0};
  std::atomic<uint64_t> rx_not_roce{0};    ///< Not for us: other protocol, MAC or port.
  std::atomic<uint64_t> rx_malformed{0};   ///< Lengths, versions, fragments, options, bad pad.
  std::atomic<uint64_t> rx_bad_opcode{0};  ///< Unknown, or not of the QP's service.
  std::atomic<uint64_t> rx_icrc_encapsulated{0};
  std::atomic<uint64_t> rx_bad_pkey{0};
  std::atomic<uint64_t> rx_unknown_qpn{0};
  std::atomic<uint64_t> rx_bad_address{0};  ///< Not from the QP's peer.
  std::atomic<uint64_t> rx_bad_state{0};
  std::atomic<uint64_t> rx_ghost{0};        ///< Responses that nothing waits for.
  std::atomic<uint64_t> rx_parked_full{0};  ///< No room behind a QP that waits for the helper.
  std::atomic<uint64_t> rx_ecn_marked{0};
  std::atomic<uint64_t> rx_cnp_ignored{0};
  std::atomic<uint64_t> no_buffer{0};   ///< The mbuf pool was empty.
  std::atomic<uint64_t> sq_corrupt{0};  ///< Impossible ring indices or entries.
  std::atomic<uint64_t> rq_corrupt{0};
  std::atomic<uint64_t> cq_overflow{0};
};

/// Owned by nic; outlives the workers' use of it.
class Device {
 public:
  Device(std::string name, uint32_t index, drivers::Port* port)
      : name_(std::move(name)), index_(index), port_(port) {}
  const std::string& name() const { return name_; }
  uint32_t index() const { return index_; }  ///< Also the capture interface index.
  drivers::Port* port() const { return port_; }
  Mac mac{};  ///< Frames for other unicast addresses are not ours.
  /// Where frames go that are not RoCE, or null. Set before a worker has the device.
  HostLink* host_link = nullptr;
  DeviceCounters counters;

 private:
  std::string name_;
  uint32_t index_;
  drivers::Port* port_;
};

}  // namespace uroce::datapath
