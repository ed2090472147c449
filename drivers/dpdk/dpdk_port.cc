// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/dpdk_port.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/device_events.h"
#include "drivers/dpdk/dpdk_device.h"
#include "drivers/dpdk/eal.h"
#include "drivers/kernel/kernel_interface.h"
#include "drivers/kernel/sockets.h"
#include "pipeline/base/observation.h"
#include "pipeline/port/frames.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kTransmitRoomFrames = 256;
constexpr uint16_t kEarlyFrames = 32;
/// How long a device may refuse frames before they are dropped. Some drivers refuse without limit
/// the frames that they cannot send, and so does a device whose peer is gone. A device that lets
/// the other end pause it refuses for as long as that lasts; switches end long pauses after a part
/// of a second, too.
constexpr Nanos kRefusalLimit{10'000'000};
constexpr Nanos kPauseLimit{1'000'000'000};

/// No value if both have none.
std::optional<uint64_t> Sum(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a || b ? std::optional(a.value_or(0) + b.value_or(0)) : std::nullopt;
}

/// What one worker drives: one transmit queue of the device, the receive queue of the same number,
/// and every n-th receive queue after it, where n workers share the device.
struct alignas(64) DpdkQueue {
  ReceiveWake wake;
  bool wakes = false;
  uint16_t next = 0;                            ///< The receive queue that was read last.
  std::array<rte_mbuf*, kEarlyFrames> early{};  ///< They came between the last look and the sleep.
  uint16_t early_count = 0;
  Nanos refused_since = kNever;
  std::atomic<uint64_t> tx_dropped{0};
  std::atomic<uint64_t> rx_damaged{0};
};

class DpdkPort final : public Port {
 public:
  DpdkPort(DeviceArguments arguments, const PortOptions& options, rte_mempool* pool,
           const StartedDevice& device, std::optional<KernelMute> mute);
  ~DpdkPort() override { Detach(); }

  uint16_t queues() const override { return static_cast<uint16_t>(queues_.size()); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t) const override { return kTransmitRoomFrames; }
  int wait_fd(uint16_t queue) const override {
    return queues_[queue].wakes ? queues_[queue].wake.fd() : -1;
  }
  bool wakes_itself() const override { return !receives_; }
  bool BeforeSleep(uint16_t queue) override;
  void AfterSleep(uint16_t queue) override;
  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;
  int maintain_fd() const override { return events_.fd(); }

 private:
  void Attach(const StartedDevice& device);
  void Detach();
  void Reconnect(WhileIdle while_idle);
  bool HasOtherInterface() const;
  void FollowInterface(WhileIdle while_idle);
  bool AddWakes(uint16_t index);
  uint16_t Poll(uint16_t index, rte_mbuf** frames, uint16_t count);
  static uint16_t DropDamaged(DpdkQueue& queue, rte_mbuf** frames, uint16_t count);
  void SwitchInterrupts(uint16_t index, bool on);
  PortInfo DeviceInfo() const;
  uint32_t Mtu(uint32_t mtu_of_interface) const;
  PortCounters DeviceCounters() const;

  const DeviceArguments arguments_;
  const PortOptions options_;
  rte_mempool* const pool_;
  std::optional<KernelMute> mute_;
  std::string why_detached_;            ///< Why the interface that has the name is not used, or "".
  const std::optional<Mac> given_mac_;  ///< Unlike the MAC of a NIC or interface, it stays.
  const bool receives_;                 ///< Whether frames can come from this device at all.
  StartedDevice device_;  ///< Changed while no worker is inside; 0 queues while there is none.
  std::vector<DpdkQueue> queues_;
  DeviceEvents events_;
  PeerLoss loss_;
  int ifindex_ = 0;  ///< Of the kernel interface that the device was opened on.
  Nanos refusal_limit_ = kRefusalLimit;
  PauseCounts pauses_;
  PortCounters closed_;               ///< Summed over the devices that this port has closed.
  mutable PacketDrops packet_drops_;  ///< Mutable: a query of the kernel resets its counts.
};

/// Whether frames can arrive: a file port receives only what its input file holds, if it has one.
bool Receives(const DeviceArguments& arguments) {
  if (arguments.driver != "net_pcap") return true;
  return !arguments.Interface().empty() || arguments.Find("rx_pcap") != nullptr;
}

std::optional<Mac> GivenMac(const DeviceArguments& arguments) {
  if (arguments.mac.has_value() || !arguments.rules().made_up_mac) return arguments.mac;
  return StableMac(arguments.Identity());
}

DpdkPort::DpdkPort(DeviceArguments arguments, const PortOptions& options, rte_mempool* pool,
                   const StartedDevice& device, std::optional<KernelMute> mute)
    : arguments_(std::move(arguments)),
      options_(options),
      pool_(pool),
      mute_(std::move(mute)),
      given_mac_(GivenMac(arguments_)),
      receives_(Receives(arguments_)),
      queues_(std::min(options.queues, options.workers)) {
  Attach(device);
}

void DpdkPort::Attach(const StartedDevice& device) {
  device_ = device;
  const absl::StatusOr<InterfaceState> kernel = ReadInterface(arguments_.Interface());
  ifindex_ = kernel.ok() ? kernel->ifindex : 0;
  events_.Listen(device.port_id);
  pauses_.Watch(device.port_id);
  const std::optional<FlowControl> flow_control = ReadFlowControl(device.port_id);
  const bool may_be_paused = flow_control == FlowControl::kRx || flow_control == FlowControl::kFull;
  refusal_limit_ = may_be_paused ? kPauseLimit : kRefusalLimit;
  if (arguments_.driver == "net_af_packet") packet_drops_.Watch(device_.fds);
  for (uint16_t index = 0; index < queues(); ++index) {
    queues_[index].next = index;
    queues_[index].wakes = AddWakes(index) && queues_[index].wake.Add(events_.fd());
  }
}

void DpdkPort::Detach() {
  if (device_.queues == 0) return;
  for (DpdkQueue& queue : queues_) {
    rte_pktmbuf_free_bulk(queue.early.data(), std::exchange(queue.early_count, 0));
    queue.wake.RemoveAll();
  }
  const PortCounters last = DeviceCounters();
  closed_.tx_discards += last.tx_discards;
  closed_.rx_missed += last.rx_missed;
  closed_.rx_pauses = Sum(closed_.rx_pauses, last.rx_pauses);
  closed_.tx_pauses = Sum(closed_.tx_pauses, last.tx_pauses);
  packet_drops_.Count();
  packet_drops_.Watch({});
  events_.Forget();
  CloseDevice(device_);
  device_ = {.queues = 0};
}

/// False: no fd signals frames. A driver has one fd per queue, in their order, or fds for all.
bool DpdkPort::AddWakes(uint16_t index) {
  std::vector<int> fds;
  const bool one_each = device_.fds.size() == device_.queues;
  for (size_t i = 0; i < device_.fds.size(); ++i) {
    if (!one_each || i % queues() == index) fds.push_back(device_.fds[i]);
  }
  for (uint16_t i = index; device_.has_interrupts && i < device_.queues; i += queues()) {
    fds.push_back(rte_eth_dev_rx_intr_ctl_q_get_fd(device_.port_id, i));
  }
  // A TAP's driver reads its queue only after a SIGIO, which any thread of the process may take
  // late.
  const bool late = arguments_.rules().wake_up == WakeUp::kTapQueue;
  ReceiveWake& wake = queues_[index].wake;
  const auto add = [&](int fd) { return late ? wake.AddLate(fd) : wake.Add(fd); };
  return !fds.empty() && std::ranges::all_of(fds, add);
}

/// Polls all receive queues of the worker; they take turns at being the first.
uint16_t DpdkPort::Poll(uint16_t index, rte_mbuf** frames, uint16_t count) {
  DpdkQueue& queue = queues_[index];
  uint16_t got = 0;
  for (uint16_t i = index; i < device_.queues && got < count; i += queues()) {
    queue.next = queue.next + queues() < device_.queues ? queue.next + queues() : index;
    got += rte_eth_rx_burst(device_.port_id, queue.next, frames + got, count - got);
  }
  return device_.checks_ip_header ? DropDamaged(queue, frames, got) : got;
}

uint16_t DpdkPort::DropDamaged(DpdkQueue& queue, rte_mbuf** frames, uint16_t count) {
  uint16_t kept = 0;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t verdict = frames[i]->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    if (verdict != RTE_MBUF_F_RX_IP_CKSUM_BAD) {
      frames[kept++] = frames[i];
      continue;
    }
    rte_pktmbuf_free(frames[i]);
    Count(queue.rx_damaged);
  }
  return kept;
}

uint16_t DpdkPort::ReceiveBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos) {
  DpdkQueue& queue = queues_[index];
  if (queue.early_count == 0) return Poll(index, frames, count);
  const uint16_t early = std::min(count, queue.early_count);
  std::copy_n(queue.early.begin(), early, frames);
  std::copy(queue.early.begin() + early, queue.early.begin() + queue.early_count,
            queue.early.begin());
  queue.early_count -= early;
  return early;
}

uint16_t DpdkPort::TransmitBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) {
  if (count == 0) return 0;
  DpdkQueue& queue = queues_[index];
  const uint16_t taken =
      device_.queues == 0 ? 0 : rte_eth_tx_burst(device_.port_id, index, frames, count);
  if (taken > 0) {
    queue.refused_since = kNever;
    return taken;
  }
  if (queue.refused_since == kNever) queue.refused_since = now;
  if (now - queue.refused_since < refusal_limit_) return 0;
  rte_pktmbuf_free(frames[0]);
  Count(queue.tx_dropped);
  return 1;
}

void DpdkPort::SwitchInterrupts(uint16_t index, bool on) {
  events_.Enter();
  for (uint16_t i = index; i < device_.queues; i += queues()) {
    if (on) {
      rte_eth_dev_rx_intr_enable(device_.port_id, i);
    } else {
      rte_eth_dev_rx_intr_disable(device_.port_id, i);
    }
  }
  events_.Leave();
}

// A frame that came before the interrupt was on raises none, so the port looks once more.
bool DpdkPort::BeforeSleep(uint16_t index) {
  DpdkQueue& queue = queues_[index];
  if (!device_.has_interrupts) return !queue.wake.IsLate();
  SwitchInterrupts(index, true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  queue.early_count +=
      Poll(index, queue.early.data() + queue.early_count, kEarlyFrames - queue.early_count);
  return queue.early_count == 0;
}

void DpdkPort::AfterSleep(uint16_t index) {
  if (!queues_[index].wakes) return;
  if (device_.has_interrupts) SwitchInterrupts(index, false);
  queues_[index].wake.Drain();
}

PortInfo DpdkPort::DeviceInfo() const {
  PortInfo info;
  rte_ether_addr mac{};
  if (given_mac_.has_value()) {
    info.mac = *given_mac_;
  } else if (device_.queues != 0 && rte_eth_macaddr_get(device_.port_id, &mac) == 0) {
    std::copy(std::begin(mac.addr_bytes), std::end(mac.addr_bytes), info.mac.begin());
  }
  rte_eth_link link{};
  const bool is_there = device_.queues != 0 && !loss_.noticed();
  if (is_there) info.flow_control = ReadFlowControl(device_.port_id);
  if (is_there && rte_eth_link_get_nowait(device_.port_id, &link) == 0) {
    info.link_up = link.link_status == RTE_ETH_LINK_UP;
    const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
    info.speed_bps = known ? uint64_t{link.link_speed} * 1'000'000 : 0;
  }
  return info;
}

/// The Ethernet payload that the port carries.
uint32_t DpdkPort::Mtu(uint32_t mtu_of_interface) const {
  const DriverRules& rules = arguments_.rules();
  uint32_t mtu = mtu_of_interface != 0 ? mtu_of_interface : kStandardMtu;
  uint16_t device_mtu = 0;
  const bool asks = rules.sets_mtu && device_.queues != 0;
  if (asks && rte_eth_dev_get_mtu(device_.port_id, &device_mtu) == 0) {
    mtu = device_mtu;
  } else if (options_.mtu_bytes != 0) {
    mtu = mtu_of_interface != 0 ? std::min(mtu, options_.mtu_bytes) : options_.mtu_bytes;
  }
  const uint32_t limit = MtuLimit(arguments_);
  return limit != 0 ? std::min(mtu, limit) : mtu;
}

PortInfo DpdkPort::Info() const {
  PortInfo info = DeviceInfo();
  info.driver = arguments_.IsPci() ? "pci" : arguments_.driver;
  const std::string interface = arguments_.Interface();
  if (arguments_.IsShared()) info.interface = interface;
  info.why_down = why_detached_;
  uint32_t mtu_of_interface = 0;
  if (!interface.empty()) {
    const absl::StatusOr<InterfaceState> kernel = ReadInterface(interface);
    info.link_up = kernel.ok() && kernel->link_up;
    if (kernel.ok()) {
      info.mac = kernel->mac;
      mtu_of_interface = kernel->mtu_bytes;
      info.speed_bps = kernel->speed_bps;
      if (arguments_.IsShared()) info.ifindex = kernel->ifindex;
    }
  }
  info.mtu_bytes = Mtu(mtu_of_interface);
  if (info.speed_bps == 0) info.speed_bps = kUnknownSpeedBps;
  return info;
}

PortCounters DpdkPort::DeviceCounters() const {
  PortCounters counters;
  rte_eth_stats stats{};
  if (device_.queues != 0 && rte_eth_stats_get(device_.port_id, &stats) == 0) {
    counters.tx_discards = arguments_.rules().counts_refusals ? 0 : stats.oerrors;
    counters.rx_missed = stats.imissed + stats.rx_nombuf;
    pauses_.AddTo(counters);
  }
  return counters;
}

PortCounters DpdkPort::counters() const {
  PortCounters counters = DeviceCounters();
  counters.tx_discards += closed_.tx_discards;
  counters.rx_missed += closed_.rx_missed + packet_drops_.Count();
  counters.rx_pauses = Sum(counters.rx_pauses, closed_.rx_pauses);
  counters.tx_pauses = Sum(counters.tx_pauses, closed_.tx_pauses);
  for (const DpdkQueue& queue : queues_) {
    counters.tx_discards += queue.tx_dropped.load(std::memory_order_relaxed);
    counters.rx_damaged += queue.rx_damaged.load(std::memory_order_relaxed);
  }
  return counters;
}

/// net_virtio_user never reconnects by itself, and a packet socket stays bound to an interface that
/// was deleted.
void DpdkPort::Maintain(WhileIdle while_idle) {
  events_.Take();
  packet_drops_.Count();
  if (HasOtherInterface()) return FollowInterface(while_idle);
  if (arguments_.driver != "net_virtio_user") return;
  if (!loss_.noticed() && !DeviceInfo().link_up) loss_.Notice();
  if (loss_.is_settled()) Reconnect(while_idle);
}

/// Reconnects only when the other side listens: otherwise each attempt would take long.
void DpdkPort::Reconnect(WhileIdle while_idle) {
  if (!CheckDevice(arguments_, options_).ok()) return;
  while_idle([this] { Detach(); });
  const absl::StatusOr<StartedDevice> device = OpenDevice(arguments_, options_, pool_);
  if (!device.ok()) return;
  loss_.Forget();
  while_idle([&] { Attach(*device); });
}

/// Whether another interface now has the name of the one that the device was opened on.
bool DpdkPort::HasOtherInterface() const {
  const std::string interface = arguments_.Interface();
  // A closed device keeps the frames that it held if they are of its pool.
  if (interface.empty() || arguments_.rules().own_pool_frame_bytes != 0) return false;
  const absl::StatusOr<InterfaceState> kernel = ReadInterface(interface);
  return kernel.ok() && kernel->ifindex != ifindex_;
}

/// What does not work yet is tried again at the next call of Maintain.
void DpdkPort::FollowInterface(WhileIdle while_idle) {
  while_idle([this] { Detach(); });
  mute_.reset();
  absl::StatusOr<KernelMute> mute = KernelMute::Open(arguments_.Interface());
  why_detached_ = std::string(mute.status().message());
  if (!mute.ok()) return;
  const absl::StatusOr<StartedDevice> device = OpenDevice(arguments_, options_, pool_);
  if (!device.ok()) return;
  mute_.emplace(*std::move(mute));
  while_idle([&] { Attach(*device); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenPort(const DpdkDevice& kind, const PortOptions& options,
                                               rte_mempool* pool) {
  const DeviceArguments& arguments = kind.arguments;
  if (absl::Status status = CheckDevice(arguments, options); !status.ok()) return status;
  std::optional<KernelMute> mute;
  if (arguments.IsShared()) {
    absl::StatusOr<KernelMute> opened = KernelMute::Open(arguments.Interface());
    if (!opened.ok()) return opened.status();
    mute.emplace(*std::move(opened));
  }
  if (const uint32_t bytes = arguments.rules().own_pool_frame_bytes; bytes != 0) {
    const auto own = MakePool(absl::StrCat("uroce_", arguments.name), bytes, kOwnPoolFrames);
    if (!own.ok()) return own.status();
    pool = *own;
  }
  const absl::StatusOr<StartedDevice> opened = OpenDevice(arguments, options, pool);
  if (!opened.ok()) return opened.status();
  return std::make_unique<DpdkPort>(arguments, options, pool, *opened, std::move(mute));
}

}  // namespace uroce::drivers
