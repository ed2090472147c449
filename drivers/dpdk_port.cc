// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk_port.h"

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
#include "drivers/device_arguments.h"
#include "drivers/device_checks.h"
#include "drivers/device_events.h"
#include "drivers/eal.h"
#include "drivers/kernel_interface.h"
#include "drivers/kernel_mute.h"
#include "drivers/packet_drops.h"
#include "drivers/peer_loss.h"
#include "drivers/receive_wake.h"
#include "drivers/stable_mac.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kTransmitRoomFrames = 256;
constexpr uint16_t kEarlyFrames = 32;
/// How long a device may refuse frames before they are dropped: some drivers refuse for ever what
/// they cannot send, and so does a device whose peer is gone.
constexpr Nanos kRefusalLimit{10'000'000};
constexpr uint64_t kUnknownSpeedBps = 10'000'000'000;
constexpr uint32_t kStandardMtu = 1500;

/// A counter that one thread writes and another reads.
void Count(std::atomic<uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

class DpdkPort final : public Port {
 public:
  DpdkPort(DeviceArguments arguments, const DeviceOptions& options, rte_mempool* pool,
           const DpdkDevice& device, std::optional<KernelMute> mute);
  ~DpdkPort() override { Detach(); }

  uint16_t ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom() const override { return kTransmitRoomFrames; }
  int wait_fd() const override { return wakes_ ? wake_.fd() : -1; }
  bool wakes_itself() const override { return !receives_; }
  bool BeforeSleep() override;
  void AfterSleep() override;
  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;
  int maintain_fd() const override { return events_.fd(); }

 private:
  void Attach(const DpdkDevice& device);
  void Detach();
  void Reconnect(WhileIdle while_idle);
  bool HasOtherInterface() const;
  void FollowInterface(WhileIdle while_idle);
  bool AddWakes();
  uint16_t Poll(rte_mbuf** frames, uint16_t count);
  uint16_t DropDamaged(rte_mbuf** frames, uint16_t count);
  void SwitchInterrupts(bool on);
  PortInfo DeviceInfo() const;
  uint32_t Mtu(uint32_t mtu_of_interface) const;
  PortCounters DeviceCounters() const;

  const DeviceArguments arguments_;
  const DeviceOptions options_;
  rte_mempool* const pool_;
  std::optional<KernelMute> mute_;
  const std::optional<Mac> given_mac_;  ///< Unlike those of NICs and interfaces, it stays.
  const bool receives_;                 ///< Frames come from this device at all.
  DpdkDevice device_;  ///< Changed while no worker is inside; 0 queues while there is none.
  ReceiveWake wake_;
  DeviceEvents events_;
  PeerLoss loss_;
  int ifindex_ = 0;  ///< Of the kernel interface that the device was opened on.
  bool wakes_ = false;
  uint16_t next_queue_ = 0;
  std::array<rte_mbuf*, kEarlyFrames> early_{};  ///< Came between the last look and the sleep.
  uint16_t early_count_ = 0;
  Nanos refused_since_ = kNever;
  std::atomic<uint64_t> tx_dropped_{0};
  std::atomic<uint64_t> rx_damaged_{0};
  PortCounters closed_;               ///< Of devices that this port has closed.
  mutable PacketDrops packet_drops_;  ///< Asking the kernel is all that changes it.
};

/// A file in is all that arrives; without one nothing ever does.
bool Receives(const DeviceArguments& arguments) {
  if (arguments.driver != "net_pcap") return true;
  return !arguments.Interface().empty() || arguments.Find("rx_pcap") != nullptr;
}

std::optional<Mac> GivenMac(const DeviceArguments& arguments) {
  if (arguments.mac.has_value() || !arguments.rules().made_up_mac) return arguments.mac;
  return StableMac(arguments);
}

DpdkPort::DpdkPort(DeviceArguments arguments, const DeviceOptions& options, rte_mempool* pool,
                   const DpdkDevice& device, std::optional<KernelMute> mute)
    : arguments_(std::move(arguments)),
      options_(options),
      pool_(pool),
      mute_(std::move(mute)),
      given_mac_(GivenMac(arguments_)),
      receives_(Receives(arguments_)) {
  Attach(device);
}

void DpdkPort::Attach(const DpdkDevice& device) {
  device_ = device;
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(arguments_.Interface());
  ifindex_ = kernel.ok() ? kernel->ifindex : 0;
  events_.Listen(device.port_id);
  wakes_ = AddWakes() && wake_.Add(events_.fd());
}

void DpdkPort::Detach() {
  if (device_.queues == 0) return;
  rte_pktmbuf_free_bulk(early_.data(), std::exchange(early_count_, 0));
  const PortCounters last = DeviceCounters();
  closed_.tx_discards += last.tx_discards;
  closed_.rx_missed += last.rx_missed;
  packet_drops_.Count();
  packet_drops_.Watch({});
  events_.Forget();
  wake_.RemoveAll();
  CloseDevice(device_);
  device_ = {.queues = 0};
}

/// False: no fd tells of frames.
bool DpdkPort::AddWakes() {
  std::vector<int> fds = device_.fds;
  if (arguments_.driver == "net_af_packet") packet_drops_.Watch(fds);
  for (uint16_t queue = 0; device_.has_interrupts && queue < device_.queues; ++queue) {
    fds.push_back(rte_eth_dev_rx_intr_ctl_q_get_fd(device_.port_id, queue));
  }
  const auto add = [this](int fd) { return wake_.Add(fd); };
  return !fds.empty() && std::ranges::all_of(fds, add);
}

/// All queues in turn, each first at its time.
uint16_t DpdkPort::Poll(rte_mbuf** frames, uint16_t count) {
  uint16_t got = 0;
  for (uint16_t i = 0; i < device_.queues && got < count; ++i) {
    next_queue_ = next_queue_ + 1u < device_.queues ? next_queue_ + 1u : 0;
    got += rte_eth_rx_burst(device_.port_id, next_queue_, frames + got, count - got);
  }
  return device_.checks_ip_header ? DropDamaged(frames, got) : got;
}

uint16_t DpdkPort::DropDamaged(rte_mbuf** frames, uint16_t count) {
  uint16_t kept = 0;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t verdict = frames[i]->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    if (verdict != RTE_MBUF_F_RX_IP_CKSUM_BAD) {
      frames[kept++] = frames[i];
      continue;
    }
    rte_pktmbuf_free(frames[i]);
    Count(rx_damaged_);
  }
  return kept;
}

uint16_t DpdkPort::ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos) {
  if (early_count_ == 0) return Poll(frames, count);
  const uint16_t early = std::min(count, early_count_);
  std::copy_n(early_.begin(), early, frames);
  std::copy(early_.begin() + early, early_.begin() + early_count_, early_.begin());
  early_count_ -= early;
  return early;
}

uint16_t DpdkPort::TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) {
  if (count == 0) return 0;
  const uint16_t taken =
      device_.queues == 0 ? 0 : rte_eth_tx_burst(device_.port_id, 0, frames, count);
  if (taken > 0) {
    refused_since_ = kNever;
    return taken;
  }
  if (refused_since_ == kNever) refused_since_ = now;
  if (now - refused_since_ < kRefusalLimit) return 0;
  rte_pktmbuf_free(frames[0]);
  Count(tx_dropped_);
  return 1;
}

void DpdkPort::SwitchInterrupts(bool on) {
  events_.Enter();
  for (uint16_t queue = 0; queue < device_.queues; ++queue) {
    if (on) {
      rte_eth_dev_rx_intr_enable(device_.port_id, queue);
    } else {
      rte_eth_dev_rx_intr_disable(device_.port_id, queue);
    }
  }
  events_.Leave();
}

// A frame that came before the interrupt was on makes none: look once more.
bool DpdkPort::BeforeSleep() {
  if (!device_.has_interrupts) return true;
  SwitchInterrupts(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  early_count_ += Poll(early_.data() + early_count_, kEarlyFrames - early_count_);
  return early_count_ == 0;
}

void DpdkPort::AfterSleep() {
  if (!wakes_) return;
  if (device_.has_interrupts) SwitchInterrupts(false);
  wake_.Drain();
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
  uint32_t mtu_of_interface = 0;
  if (!interface.empty()) {
    const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface);
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
  }
  return counters;
}

PortCounters DpdkPort::counters() const {
  PortCounters counters = DeviceCounters();
  counters.tx_discards += closed_.tx_discards + tx_dropped_.load(std::memory_order_relaxed);
  counters.rx_missed += closed_.rx_missed + packet_drops_.Count();
  counters.rx_damaged = rx_damaged_.load(std::memory_order_relaxed);
  return counters;
}

/// net_virtio_user never connects again by itself, and a packet socket stays with an interface that
/// was deleted.
void DpdkPort::Maintain(WhileIdle while_idle) {
  events_.Take();
  packet_drops_.Count();
  if (HasOtherInterface()) return FollowInterface(while_idle);
  if (arguments_.driver != "net_virtio_user") return;
  if (!loss_.noticed() && !DeviceInfo().link_up) loss_.Notice();
  if (loss_.is_settled()) Reconnect(while_idle);
}

/// The other side must listen, or each attempt would take a while.
void DpdkPort::Reconnect(WhileIdle while_idle) {
  if (!CheckDevice(arguments_, options_).ok()) return;
  while_idle([this] { Detach(); });
  const absl::StatusOr<DpdkDevice> device = OpenDevice(arguments_, options_, pool_);
  if (!device.ok()) return;
  loss_.Forget();
  while_idle([&] { Attach(*device); });
}

/// Another interface has the name of the one that the device was opened on.
bool DpdkPort::HasOtherInterface() const {
  const std::string interface = arguments_.Interface();
  // A device that is closed keeps what frames of a pool of its own it had.
  if (interface.empty() || arguments_.rules().own_pool_frame_bytes != 0) return false;
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface);
  return kernel.ok() && kernel->ifindex != ifindex_;
}

/// What does not work yet is tried again at the next call.
void DpdkPort::FollowInterface(WhileIdle while_idle) {
  while_idle([this] { Detach(); });
  mute_.reset();
  absl::StatusOr<KernelMute> mute = KernelMute::Open(arguments_.Interface());
  if (!mute.ok()) return;
  const absl::StatusOr<DpdkDevice> device = OpenDevice(arguments_, options_, pool_);
  if (!device.ok()) return;
  mute_.emplace(*std::move(mute));
  while_idle([&] { Attach(*device); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenDpdkPort(const std::string& device,
                                                   const DeviceOptions& options,
                                                   rte_mempool* pool) {
  absl::StatusOr<DeviceArguments> arguments = ParseDeviceArguments(device);
  if (!arguments.ok()) return arguments.status();
  if (absl::Status status = CheckDevice(*arguments, options); !status.ok()) return status;
  std::optional<KernelMute> mute;
  if (arguments->IsShared()) {
    absl::StatusOr<KernelMute> opened = KernelMute::Open(arguments->Interface());
    if (!opened.ok()) return opened.status();
    mute.emplace(*std::move(opened));
  }
  if (const uint32_t bytes = arguments->rules().own_pool_frame_bytes; bytes != 0) {
    const auto own = MakePool(absl::StrCat("uroce_", arguments->name), bytes, kOwnPoolFrames);
    if (!own.ok()) return own.status();
    pool = *own;
  }
  const absl::StatusOr<DpdkDevice> opened = OpenDevice(*arguments, options, pool);
  if (!opened.ok()) return opened.status();
  return std::make_unique<DpdkPort>(*std::move(arguments), options, pool, *opened, std::move(mute));
}

}  // namespace uroce::drivers
