// SPDX-License-Identifier: Apache-2.0
// A device: one NIC as the workers see it. It has a port, the workers that drive the port's queues,
// addresses, and counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/base/counters.h"
#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/thread/shared_rate.h"
#include "pipeline/port/frame_queue.h"

namespace uroce::drivers {
class Port;
}

namespace uroce::datapath {

class GsiLink;
class HostLink;
class QueuePair;

/// The number that names all members of a multicast group. Each member gets a packet sent to it.
inline constexpr Qpn kMulticastQpn{0xffffff};

/// Counters of one device at one worker, which writes them with relaxed stores. The control thread
/// reads them at any time.
struct DeviceCounters {
  std::atomic<uint64_t> port_rcv_packets{0};
  std::atomic<uint64_t> port_rcv_bytes{0};
  std::atomic<uint64_t> port_xmit_packets{0};
  std::atomic<uint64_t> port_xmit_bytes{0};
  std::atomic<uint64_t> multicast_rcv_packets{0};  ///< For groups with members here.
  std::atomic<uint64_t> multicast_xmit_packets{0};
  std::atomic<uint64_t> rx_not_roce{0};    ///< Not for us: other protocol, MAC or port.
  std::atomic<uint64_t> rx_malformed{0};   ///< Lengths, versions, fragments, options, bad pad.
  std::atomic<uint64_t> rx_bad_opcode{0};  ///< Unknown, or not of the QP's service.
  std::atomic<uint64_t> rx_icrc_encapsulated{0};
  std::atomic<uint64_t> rx_bad_pkey{0};
  std::atomic<uint64_t> rx_unknown_qpn{0};
  std::atomic<uint64_t> rx_bad_address{0};  ///< Not from the QP's peer.
  std::atomic<uint64_t> rx_bad_state{0};
  std::atomic<uint64_t> rx_ghost{0};              ///< Responses that nothing waits for.
  std::atomic<uint64_t> rx_cross_worker_full{0};  ///< The owning worker was behind.
  std::atomic<uint64_t> rx_kept_full{0};          ///< Behind a missing packet; no room to keep it.
  std::atomic<uint64_t> rx_parked_full{0};  ///< No room behind a QP that waits for the helper.
  std::atomic<uint64_t> np_ecn_marked_roce_packets{0};  ///< Packets of all kinds, with a CE mark.
  std::atomic<uint64_t> np_cnp_sent{0};
  std::atomic<uint64_t> rp_cnp_handled{0};
  /// CNPs for no queue pair, not from its peer, or for one without congestion control.
  std::atomic<uint64_t> rp_cnp_ignored{0};
  /// Losses that slowed a flow down, of those the losses that counted as a CNP, and of those the
  /// ones that gave a flow at the line rate its limit.
  std::atomic<uint64_t> roce_slow_restart{0};
  std::atomic<uint64_t> roce_slow_restart_cnps{0};
  std::atomic<uint64_t> roce_slow_restart_trans{0};
  std::atomic<uint64_t> no_buffer{0};   ///< The mbuf pool was empty.
  std::atomic<uint64_t> sq_corrupt{0};  ///< Impossible ring indices or entries.
  std::atomic<uint64_t> rq_corrupt{0};
  std::atomic<uint64_t> cq_overflow{0};
};

/// Distributions of one device at one worker, which adds to them. The control thread reads them.
struct DeviceHistograms {
  /// From the turn that takes a work from its queue to the turn that completes it; of works that
  /// succeed and are signaled.
  LatencyHistogram completion_ns;
  LatencyHistogram round_trip_ns;  ///< Of connections with selective repeat, one at a time.
  SizeHistogram sent_bytes;        ///< Messages: works taken from send queues.
  SizeHistogram received_bytes;    ///< Messages that a receive work has taken.
};

/// Owned by nic; outlives the workers' use of it.
class Device {
 public:
  /// `workers` >= port->queues().
  Device(std::string name, uint32_t index, drivers::Port* port, uint32_t workers = 1);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  /// No two devices that exist have the same, modulo UROCE_MAX_DEVICES either. Below 2^16.
  uint32_t index() const { return index_; }
  drivers::Port* port() const { return port_; }
  /// The port was removed, and `absent` stands for it. While all workers stand still.
  void ReplacePort(drivers::Port* absent) { port_ = absent; }

  /// The port's queue that `worker` drives, if it drives one.
  std::optional<uint16_t> QueueOf(uint32_t worker) const;
  /// The worker that drives the queue by which `worker` sends: itself, or one that sends for it.
  uint32_t DriverOf(uint32_t worker) const;
  /// The worker that takes and sends the frames which are not RoCE.
  uint32_t host_worker() const { return DriverOfQueue(0); }
  /// Frames of a worker without a queue, on their way to its driver; null for the others.
  drivers::FrameQueue* relay(uint32_t worker) const { return relays_[worker].get(); }

  DeviceCounters& counters(uint32_t worker) { return counters_[worker].its; }
  DeviceHistograms& histograms(uint32_t worker) { return counters_[worker].histograms; }
  /// Limits what the device sends to `bps`, all workers together; 0: no limit. Called before a
  /// worker has the device, or while all workers stand still.
  void SetRate(uint64_t bps) { rate_->Set(bps); }
  SharedRate* rate() const { return rate_.get(); }
  /// Settings of each priority. Called before a worker has the device, or while all workers stand
  /// still. `line_bps` > 0: what the port sends at most.
  using SettingsOfPriorities = std::array<congestion::Settings, congestion::kPriorities>;
  void SetCongestionOfPriorities(const SettingsOfPriorities& settings, uint64_t line_bps);
  /// The same settings for all priorities.
  void SetCongestion(const congestion::Settings& settings, uint64_t line_bps);
  /// The environment of each priority at a worker.
  std::span<congestion::Environment, congestion::kPriorities> congestion(uint32_t worker) {
    return counters_[worker].congestion;
  }
  /// The environment at the worker that owns the queue pair, for packets of `traffic_class`.
  congestion::Environment& CongestionOf(Qpn qpn, uint8_t traffic_class);
  /// The sum of one counter over all workers.
  uint64_t Sum(std::atomic<uint64_t> DeviceCounters::*counter) const;
  uint64_t Of(uint32_t worker, std::atomic<uint64_t> DeviceCounters::*counter) const {
    return (counters_[worker].its.*counter).load(std::memory_order_relaxed);
  }
  /// The sums of one histogram over all workers.
  template <typename Kind>
  HistogramSums Sum(Kind DeviceHistograms::*histogram) const {
    HistogramSums sums;
    for (const CounterBlock& block : counters_) (block.histograms.*histogram).AddTo(sums);
    return sums;
  }

  /// Frames for other unicast MACs are not for the device. Changed while all workers stand still.
  Mac mac{};
  /// Frames do not leave the daemon, so that their ICRC need not be computed
  /// (pipeline/port/frame_marks.h). Changed like `mac`.
  bool leaves_icrc_out = false;
  /// An address of the device, in one VLAN; 0: untagged.
  struct Address {
    Gid gid;
    uint16_t vlan_id = 0;
  };
  /// Packets to other IP addresses are not for the device. Changed like `mac`.
  std::vector<Address> addresses;
  /// A queue pair in a multicast group, and the worker that owns it.
  struct Member {
    QueuePair* queue_pair = nullptr;
    uint32_t worker = 0;
  };
  /// The members of each group. Changed like `mac`.
  std::map<Gid, std::vector<Member>> groups;
  /// Whether `gid` is an address of the device.
  bool HasAddress(const Gid& gid) const;
  /// Takes the frames that are not RoCE; or null. Set before a worker has the device.
  HostLink* host_link = nullptr;
  /// Takes the datagrams for queue pair 1. Null: they are dropped, like those for any unknown queue
  /// pair. Set before a worker has the device.
  GsiLink* gsi_link = nullptr;

 private:
  struct alignas(64) CounterBlock {
    DeviceCounters its;
    std::array<congestion::Environment, congestion::kPriorities> congestion;
    DeviceHistograms histograms;
  };
  uint32_t DriverOfQueue(uint32_t queue) const;

  std::string name_;
  uint32_t index_;
  drivers::Port* port_;
  uint32_t workers_;
  uint32_t queues_;
  std::vector<std::unique_ptr<drivers::FrameQueue>> relays_;
  std::vector<CounterBlock> counters_;
  std::unique_ptr<SharedRate> rate_ = std::make_unique<SharedRate>(0);
};

}  // namespace uroce::datapath
