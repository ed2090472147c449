// SPDX-License-Identifier: Apache-2.0
// Ports at emulated switches: how the workers share the model of the network (SwitchNetwork), and
// the port of one NIC (SwitchPort).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/fabric/fabric.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/port.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {

/// The port of one NIC at a switch.
struct SwitchNic {
  Mac mac{};
  uint32_t mtu_bytes = 9000;
  uint32_t switch_index = 0;
  fabric::LinkConfig link;
  uint32_t device = 0;  ///< The NIC's index in the daemon.
};

/// A link between two switches.
struct SwitchTrunk {
  uint32_t first_switch = 0;
  uint32_t second_switch = 0;
  fabric::LinkConfig link;
};

struct SwitchNetworkConfig {
  std::vector<fabric::SwitchConfig> switches;
  std::vector<SwitchTrunk> trunks;
  std::vector<SwitchNic> nics;
  uint32_t max_frames = 16384;  ///< How many frames the switches and links hold together.
  uint64_t seed = 1;
  uint16_t queues = 1;  ///< Of each port: the number of workers. Worker i drives queue i.
};

/// How many frames wait for a worker in each receive queue of a port. A frame that finds the queue
/// full is dropped and counted, as by a NIC whose receive ring is full.
inline constexpr uint32_t kSwitchReceiveFrames = 512;

/// The most that the network's time advances in one turn of worker 0. After worker 0 was away for
/// longer, because others had its CPU, the network's time catches up with the clock turn by turn.
/// So no line falls idle for want of frames, and queues are as long as they would have been. The
/// step is shorter than the time that a host's waiting frames take on its link. Frames are taken at
/// the end of a step: a round trip seems longer by at most one at each end.
inline constexpr Nanos kSwitchStep{20'000};
/// How far the network's time may lag. When the CPU cannot carry the rate, the network runs slower.
inline constexpr Nanos kMostSwitchLag{20'000'000};

/// The switches and links of a daemon, and the rings between them and the workers. Worker 0 runs
/// them whenever it drives its queue of a port, and their events end its sleep. The other workers
/// exchange frames with worker 0 through rings. Frames are moved and not copied, except those that
/// go to several ports. Outlives its ports.
class SwitchNetwork final : public fabric::Surroundings {
 public:
  /// Copies are made in mbufs of `copies`. The pools of all frames outlive it.
  SwitchNetwork(const SwitchNetworkConfig& config, rte_mempool* copies);
  ~SwitchNetwork() override = default;

  uint16_t queues() const { return queues_; }
  const SwitchNic& nic(uint32_t host) const { return nics_[host]; }

  // ---- the worker that drives `queue` of the port of `host` ----
  uint16_t Receive(uint32_t host, uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now);
  uint16_t Transmit(uint32_t host, uint16_t queue, rte_mbuf* const* frames, uint16_t count,
                    Nanos now);
  uint16_t Room(uint32_t host, uint16_t queue);
  Bell& BellOf(uint32_t host, uint16_t queue) { return places_[host]->bells[queue]; }
  bool HasFrames(uint32_t host, uint16_t queue) const;
  /// The deadline is in the past while the network's time is behind.
  Nanos NextDeadline(uint16_t queue) const { return queue == 0 ? fabric_.NextEvent() : kNever; }
  /// How far the network's time is behind `now`; 0 when it is not.
  Nanos Lag(Nanos now) const { return std::max(now - this->now(), Nanos(0)); }

  // ---- control thread, while no worker is inside a port ----
  const fabric::Fabric& fabric() const { return fabric_; }
  /// The network's time, at which `fabric` is in its present state.
  Nanos now() const { return now_.load(std::memory_order_relaxed); }
  void SetSwitch(uint32_t switch_index, const fabric::SwitchConfig& config) {
    fabric_.SetSwitch(switch_index, config, now());
  }
  void SetLink(uint32_t cable, const fabric::LinkConfig& config) { fabric_.SetLink(cable, config); }
  void SetUp(uint32_t cable, bool is_up) { fabric_.SetUp(cable, is_up, now()); }

  /// The port of a NIC that was taken in gets a link: the one that its place had, with what
  /// SetLink has changed. Only then may workers drive it.
  void Plug(uint32_t host);
  /// A place that no worker drives any more has no link. What is on the way to it or from it is
  /// dropped and counted; what waited for workers is freed.
  void Unplug(uint32_t host);

  // ---- control thread, at any time ----
  /// A place at the switch that no NIC has, or nullopt. Places are made with the network.
  std::optional<uint32_t> FreeHost(uint32_t switch_index) const;
  /// The free place gets a NIC; its link is not changed.
  void TakeIn(uint32_t host, const SwitchNic& nic);
  void Release(uint32_t host) { has_nic_[host] = false; }
  bool has_nic(uint32_t host) const { return has_nic_[host]; }
  /// The place of a NIC, by its index in the daemon.
  std::optional<uint32_t> HostOf(uint32_t device) const;
  /// Frames that arrived at the port and found its queue full.
  uint64_t missed(uint32_t host) const {
    return places_[host]->missed.load(std::memory_order_relaxed);
  }

  // ---- fabric::Surroundings ----
  void Deliver(uint32_t host, const fabric::Frame& frame, Nanos arrival) override;
  std::optional<fabric::Frame> Copy(const fabric::Frame& frame) override;
  void Free(const fabric::Frame& frame) override;

 private:
  /// Rings and bells of one port, by its queues.
  struct Place {
    explicit Place(uint16_t queues);
    std::vector<std::unique_ptr<FrameQueue>> sent;  ///< By the workers other than worker 0.
    std::vector<std::unique_ptr<FrameQueue>> received;
    std::vector<Bell> bells;
    std::atomic<uint64_t> missed{0};
  };

  /// Advances the network's time, at most to `now`.
  void Advance(Nanos now);
  /// Sends at the network's time.
  void Send(uint32_t host, rte_mbuf* frame);
  /// Sends what other workers have put into the rings of `host`, as much as there is room for.
  void TakeSent(uint32_t host);

  std::vector<SwitchNic> nics_;
  std::vector<bool> has_nic_;
  const uint16_t queues_;
  rte_mempool* const copies_;
  std::vector<std::unique_ptr<Place>> places_;
  std::atomic<Nanos> now_{Nanos(0)};  ///< Written by worker 0.
  Nanos turn_{-1};         ///< The clock's time of the turn that advanced the network's time last.
  fabric::Fabric fabric_;  ///< Destroyed first: it gives back the frames that it holds.
};

/// The port of a NIC at an emulated switch. It has its place at the switch, which
/// SwitchNetwork::TakeIn has given to it, until its end. Its link state and speed are those of its
/// link to the switch. While that link has no room for more frames, the sender has to wait; a link
/// that is down takes all frames and loses them.
class SwitchPort final : public Port {
 public:
  SwitchPort(std::shared_ptr<SwitchNetwork> network, uint32_t host)
      : network_(std::move(network)), host_(host) {}
  /// The place at the switch is free then.
  ~SwitchPort() override { network_->Release(host_); }

  uint16_t queues() const override { return network_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return network_->Receive(host_, queue, frames, count, now);
  }
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return network_->Transmit(host_, queue, frames, count, now);
  }
  uint16_t TransmitRoom(uint16_t queue) const override { return network_->Room(host_, queue); }
  int wait_fd(uint16_t queue) const override {
    return wakes_itself() ? -1 : network_->BellOf(host_, queue).fd();
  }
  bool wakes_itself() const override { return queues() == 1; }
  bool BeforeSleep(uint16_t queue) override;
  void AfterSleep(uint16_t queue) override;
  Nanos NextDeadline(uint16_t queue) const override { return network_->NextDeadline(queue); }
  Nanos Lag(Nanos now) const override { return network_->Lag(now); }
  bool may_lag() const override { return true; }
  PortInfo Info() const override;
  PortCounters counters() const override { return {.rx_missed = network_->missed(host_)}; }

 private:
  const std::shared_ptr<SwitchNetwork> network_;
  const uint32_t host_;
};

}  // namespace uroce::drivers
