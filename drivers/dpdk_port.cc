// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk_port.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/device_arguments.h"
#include "drivers/kernel_interface.h"
#include "drivers/kernel_mute.h"
#include "drivers/packet_socket.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kDescriptors = 1024;
constexpr uint16_t kTransmitRoomFrames = 256;
/// How long a device may refuse a frame before the frame is dropped: some drivers refuse for ever
/// what they cannot send.
constexpr Nanos kRefusalLimit{10'000'000};
constexpr uint64_t kUnknownSpeedBps = 10'000'000'000;

class DpdkPort final : public Port {
 public:
  DpdkPort(DeviceArguments arguments, uint16_t port_id, std::optional<KernelMute> mute)
      : arguments_(std::move(arguments)), port_id_(port_id), mute_(std::move(mute)) {
    wait_fd_ = FindWaitFd();
  }
  ~DpdkPort() override {
    rte_eth_dev_stop(port_id_);
    rte_eth_dev_close(port_id_);
  }

  uint16_t ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos) override {
    return rte_eth_rx_burst(port_id_, 0, frames, count);
  }
  uint16_t TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom() const override { return kTransmitRoomFrames; }
  int wait_fd() const override { return wait_fd_; }
  PortInfo Info() const override;
  PortCounters counters() const override;

 private:
  PortInfo DeviceInfo() const;
  int FindWaitFd() const;

  const DeviceArguments arguments_;
  const uint16_t port_id_;
  const std::optional<KernelMute> mute_;
  int wait_fd_ = -1;  ///< The driver's own; only waited on.
  Nanos refused_since_ = kNever;
  uint64_t dropped_ = 0;  ///< Written by the worker alone; control may read an old value.
};

uint16_t DpdkPort::TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos now) {
  if (count == 0) return 0;
  const uint16_t taken = rte_eth_tx_burst(port_id_, 0, frames, count);
  if (taken > 0) {
    refused_since_ = kNever;
    return taken;
  }
  if (refused_since_ == kNever) refused_since_ = now;
  if (now - refused_since_ < kRefusalLimit) return 0;
  refused_since_ = kNever;
  rte_pktmbuf_free(frames[0]);
  __atomic_store_n(&dropped_, dropped_ + 1, __ATOMIC_RELAXED);
  return 1;
}

PortInfo DpdkPort::DeviceInfo() const {
  PortInfo info;
  rte_ether_addr mac{};
  if (rte_eth_macaddr_get(port_id_, &mac) == 0) {
    std::copy(std::begin(mac.addr_bytes), std::end(mac.addr_bytes), info.mac.begin());
  }
  uint16_t mtu = 0;
  if (rte_eth_dev_get_mtu(port_id_, &mtu) == 0) info.mtu_bytes = mtu;
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(port_id_, &link) == 0) {
    info.link_up = link.link_status == RTE_ETH_LINK_UP;
    const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
    info.speed_bps = known ? uint64_t{link.link_speed} * 1'000'000 : 0;
  }
  return info;
}

/// The socket of the one queue; with more of them, or none, workers wake by timer.
int DpdkPort::FindWaitFd() const {
  if (arguments_.driver != "net_af_packet") return -1;
  const std::vector<int> sockets = PacketSocketsOn(Info().ifindex);
  return sockets.size() == 1 ? sockets.front() : -1;
}

PortInfo DpdkPort::Info() const {
  PortInfo info = DeviceInfo();
  info.driver = arguments_.IsPci() ? "pci" : arguments_.driver;
  info.interface = arguments_.Interface();
  if (!info.interface.empty()) {
    const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(info.interface);
    info.link_up = kernel.ok() && kernel->link_up;
    if (kernel.ok()) {
      info.mac = kernel->mac;
      info.mtu_bytes = kernel->mtu_bytes;
      info.speed_bps = kernel->speed_bps;
      info.ifindex = kernel->ifindex;
    }
  }
  if (info.speed_bps == 0) info.speed_bps = kUnknownSpeedBps;
  return info;
}

PortCounters DpdkPort::counters() const {
  PortCounters counters;
  rte_eth_stats stats{};
  if (rte_eth_stats_get(port_id_, &stats) == 0) {
    counters.tx_discards = stats.oerrors;
    counters.rx_missed = stats.imissed + stats.rx_nombuf;
  }
  counters.tx_discards += __atomic_load_n(&dropped_, __ATOMIC_RELAXED);
  return counters;
}

/// Checks ahead what the driver would only report in its own log.
absl::Status CheckKernelInterface(const DeviceArguments& arguments) {
  const std::string interface = arguments.Interface();
  if (interface.empty() || arguments.driver == "net_tap") return absl::OkStatus();
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface);
  if (!kernel.ok()) {
    return absl::Status(
        kernel.status().code(),
        absl::StrCat("dev \"", arguments.name, "\": iface=", kernel.status().message()));
  }
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    close(fd);
    return absl::OkStatus();
  }
  if (errno != EPERM && errno != EACCES) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("dev \"", arguments.name, "\": iface=", interface,
                                                  " needs the capability CAP_NET_RAW"));
}

absl::Status DeviceError(const DeviceArguments& arguments, absl::string_view step, int error) {
  return absl::InternalError(absl::StrCat("dev \"", arguments.ToDpdk(), "\": ", step, ": ",
                                          rte_strerror(error < 0 ? -error : error)));
}

/// One queue each way. MTU 0 leaves the device's own limit alone: memif, af_packet and tap
/// advertise 1518 bytes, refuse more, and yet carry it.
absl::Status StartDevice(const DeviceArguments& arguments, uint16_t port_id, rte_mempool* pool) {
  const int socket = rte_eth_dev_socket_id(port_id);
  const auto numa = static_cast<unsigned>(socket < 0 ? SOCKET_ID_ANY : socket);
  const rte_eth_conf conf{};
  int error = rte_eth_dev_configure(port_id, 1, 1, &conf);
  if (error != 0) return DeviceError(arguments, "configure", error);
  uint16_t rx_descriptors = kDescriptors;
  uint16_t tx_descriptors = kDescriptors;
  error = rte_eth_dev_adjust_nb_rx_tx_desc(port_id, &rx_descriptors, &tx_descriptors);
  if (error != 0) return DeviceError(arguments, "descriptors", error);
  error = rte_eth_rx_queue_setup(port_id, 0, rx_descriptors, numa, nullptr, pool);
  if (error != 0) return DeviceError(arguments, "receive queue", error);
  error = rte_eth_tx_queue_setup(port_id, 0, tx_descriptors, numa, nullptr);
  if (error != 0) return DeviceError(arguments, "transmit queue", error);
  error = rte_eth_dev_start(port_id);
  if (error != 0) return DeviceError(arguments, "start", error);
  return absl::OkStatus();
}

absl::StatusOr<uint16_t> AttachDevice(const DeviceArguments& arguments) {
  uint16_t port_id = 0;
  // PCI devices named to InitEal are there already.
  if (rte_eth_dev_get_port_by_name(arguments.name.c_str(), &port_id) == 0) {
    if (arguments.IsPci()) return port_id;
    return absl::AlreadyExistsError(absl::StrCat("dev \"", arguments.name, "\": used twice"));
  }
  const int error = rte_dev_probe(arguments.ToDpdk().c_str());
  if (error != 0) return DeviceError(arguments, "DPDK cannot open it", error);
  if (rte_eth_dev_get_port_by_name(arguments.name.c_str(), &port_id) == 0) return port_id;
  return DeviceError(arguments, "not an Ethernet device", ENODEV);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenDpdkPort(const std::string& device, rte_mempool* pool) {
  absl::StatusOr<DeviceArguments> arguments = ParseDeviceArguments(device);
  if (!arguments.ok()) return arguments.status();
  if (absl::Status status = CheckKernelInterface(*arguments); !status.ok()) return status;
  const absl::StatusOr<uint16_t> port_id = AttachDevice(*arguments);
  if (!port_id.ok()) return port_id.status();
  absl::Status status = StartDevice(*arguments, *port_id, pool);
  std::optional<KernelMute> mute;
  if (status.ok() && !arguments->Interface().empty()) {
    absl::StatusOr<KernelMute> opened = KernelMute::Open(arguments->Interface());
    status = opened.status();
    if (opened.ok()) mute.emplace(*std::move(opened));
  }
  if (status.ok()) {
    return std::make_unique<DpdkPort>(*std::move(arguments), *port_id, std::move(mute));
  }
  rte_eth_dev_close(*port_id);
  return status;
}

}  // namespace uroce::drivers
