// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/udp_port.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/device_checks.h"
#include "drivers/kernel/datagrams.h"
#include "drivers/kernel/frame_groups.h"
#include "drivers/kernel/kernel_interface.h"
#include "drivers/kernel/udp_sockets.h"
#include "pipeline/base/counters.h"
#include "pipeline/port/wake.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kUdpRoom = FrameGroups::kMostFrames;
constexpr uint64_t kUdpSpeedBps = 10'000'000'000;

/// What one worker drives.
struct alignas(64) UdpQueue {
  UdpSockets sockets;  ///< Changed while no worker is inside.
  ReceiveWake wake;
  DatagramReader reader;
  DatagramWriter writer;
  TransmitGate gate;
  std::atomic<uint64_t> tx_dropped{0};
  std::atomic<uint64_t> rx_dropped{0};
  std::atomic<uint64_t> rx_fitted{0};
};

/// The address of `entry`, if it is an IP address.
std::optional<Gid> GidOf(const ifaddrs& entry) {
  Gid gid;
  if (entry.ifa_addr == nullptr) return std::nullopt;
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto* const at = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    gid.bytes[10] = gid.bytes[11] = 0xff;
    std::memcpy(gid.bytes.data() + 12, &at->sin_addr, 4);
    return gid;
  }
  if (entry.ifa_addr->sa_family != AF_INET6) return std::nullopt;
  const auto* const at = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  std::memcpy(gid.bytes.data(), &at->sin6_addr, 16);
  return gid;
}

/// The interface that has the address; "" for none.
std::string InterfaceWith(const Gid& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string name;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (GidOf(*at) == address) name = at->ifa_name;
  }
  freeifaddrs(list);
  return name;
}

std::optional<Gid> ParseGid(const std::string& text) {
  Gid gid;
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  if (inet_pton(AF_INET, text.c_str(), gid.bytes.data() + 12) == 1) return gid;
  return std::nullopt;
}

class UdpPort final : public Port {
 public:
  UdpPort(UdpPlace place, const Mac& mac, const DeviceOptions& options, rte_mempool* pool)
      : place_(std::move(place)),
        own_mac_(mac),
        mtu_bytes_(options.mtu_bytes),
        pool_(pool),
        queues_(std::min(options.queues, options.workers)) {}

  uint16_t queues() const override { return static_cast<uint16_t>(queues_.size()); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override {
    return queues_[queue].gate.is_open() ? kUdpRoom : 0;
  }
  int wait_fd(uint16_t queue) const override { return queues_[queue].wake.fd(); }
  bool BeforeSleep(uint16_t queue) override { return !queues_[queue].reader.has_frames(); }
  void AfterSleep(uint16_t queue) override { queues_[queue].wake.Drain(); }
  Nanos NextDeadline(uint16_t queue) const override { return queues_[queue].gate.opens_at(); }

  uint64_t receive_buffer_bytes() const override { return receive_buffer_bytes_; }

  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;

  /// What belongs to one interface of the name: another one may get it later.
  struct Opened {
    std::vector<UdpSockets> sockets;
    KernelInterface kernel;
  };
  absl::StatusOr<Opened> Open() const;
  /// Uses what was opened; its sockets are the former ones then. Called while no worker is inside.
  /// False: a socket cannot wake its worker; Maintain tries again.
  [[nodiscard]] bool Exchange(Opened& opened);

 private:
  /// The interface with the addresses. Errors: NotFound.
  absl::StatusOr<KernelInterface> ReadInterface() const;
  Mac MacOf(const KernelInterface& kernel) const {
    return place_.interface.empty() || kernel.mac == Mac{} ? own_mac_ : kernel.mac;
  }
  uint64_t Drops() const;
  /// The smallest buffer of a queue's sockets: peers of either family may fill theirs.
  uint64_t SmallestBuffer() const;

  const UdpPlace place_;
  const Mac own_mac_;         ///< Made up, for addresses.
  const uint32_t mtu_bytes_;  ///< 0: the interface's.
  rte_mempool* const pool_;
  std::vector<UdpQueue> queues_;
  int ifindex_ = 0;  ///< Of the interface that the sockets were opened on; 0: they must be opened.
  Mac mac_{};        ///< That of frames.
  uint64_t receive_buffer_bytes_ = 0;  ///< Of the sockets that were opened first.
  uint64_t drops_before_ = 0;          ///< Of sockets that are closed.
};

// ---- worker ----

uint16_t UdpPort::ReceiveBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) {
  UdpQueue& queue = queues_[index];
  queue.gate.Advance(now);
  const uint16_t got = queue.reader.Receive(queue.sockets, pool_, frames, count);
  const DatagramReader::Counts counts = queue.reader.TakeCounts();
  if (counts.dropped != 0) Count(queue.rx_dropped, counts.dropped);
  if (counts.fitted != 0) Count(queue.rx_fitted, counts.fitted);
  return got;
}

uint16_t UdpPort::TransmitBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) {
  UdpQueue& queue = queues_[index];
  if (!queue.gate.is_open()) return 0;
  const DatagramWriter::Sent sent = queue.writer.Send(queue.sockets, frames, count);
  if (sent.dropped != 0) Count(queue.tx_dropped, sent.dropped);
  if (!queue.gate.GivesUp(sent.frames != 0, sent.is_full, now)) return sent.frames;
  rte_pktmbuf_free_bulk(frames + sent.frames, count - sent.frames);
  Count(queue.tx_dropped, count - sent.frames);
  return count;
}

// ---- control ----

absl::StatusOr<KernelInterface> UdpPort::ReadInterface() const {
  if (!place_.interface.empty()) return ReadKernelInterface(place_.interface);
  std::string interface;
  for (const Gid& address : place_.addresses) {
    interface = InterfaceWith(address);
    if (!interface.empty()) continue;
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
    const absl::string_view shown = text;
    return absl::NotFoundError(
        absl::StrCat("no interface of this network namespace has the address ",
                     address.is_ipv4() ? shown.substr(7) : shown));
  }
  return ReadKernelInterface(interface);
}

PortInfo UdpPort::Info() const {
  PortInfo info;
  info.driver = kUdpDriver;
  info.peer_mac = kUdpPeerMac;
  info.interface = place_.interface;
  info.mac = own_mac_;
  const absl::StatusOr<KernelInterface> kernel = ReadInterface();
  if (!kernel.ok()) {
    if (info.interface.empty()) info.interface = "none";
    info.why_down = std::string(kernel.status().message());
    return info;
  }
  info.interface = kernel->name;
  info.mac = MacOf(*kernel);
  info.ifindex = kernel->ifindex;
  info.link_up = kernel->link_up && ifindex_ != 0;
  info.mtu_bytes = kernel->mtu_bytes;
  if (mtu_bytes_ != 0) info.mtu_bytes = std::min(info.mtu_bytes, mtu_bytes_);
  info.speed_bps = kernel->speed_bps != 0 ? kernel->speed_bps : kUdpSpeedBps;
  return info;
}

uint64_t UdpPort::Drops() const {
  uint64_t drops = 0;
  for (const UdpQueue& queue : queues_) {
    drops += SocketDrops(queue.sockets.ipv4.receiver) + SocketDrops(queue.sockets.ipv6.receiver);
  }
  return drops;
}

uint64_t UdpPort::SmallestBuffer() const {
  const UdpSockets& sockets = queues_.front().sockets;
  const uint64_t ipv4 = SocketBufferBytes(sockets.ipv4.receiver);
  const uint64_t ipv6 = SocketBufferBytes(sockets.ipv6.receiver);
  return ipv4 == 0 || ipv6 == 0 ? std::max(ipv4, ipv6) : std::min(ipv4, ipv6);
}

PortCounters UdpPort::counters() const {
  PortCounters counters{.tx_discards = 0, .rx_missed = drops_before_ + Drops(), .rx_damaged = 0};
  counters.rx_fitted = 0;
  for (const UdpQueue& queue : queues_) {
    counters.tx_discards += queue.tx_dropped.load(std::memory_order_relaxed);
    counters.rx_missed += queue.rx_dropped.load(std::memory_order_relaxed);
    *counters.rx_fitted += queue.rx_fitted.load(std::memory_order_relaxed);
  }
  return counters;
}

/// A socket stays bound to an interface that was deleted. What cannot be opened yet is tried again
/// at the next call. Workers stand still for the exchange of the sockets alone.
void UdpPort::Maintain(WhileIdle while_idle) {
  const absl::StatusOr<KernelInterface> kernel = ReadInterface();
  if (!kernel.ok()) return;
  const bool is_same = kernel->ifindex == ifindex_ || (ifindex_ != 0 && place_.interface.empty());
  if (is_same && MacOf(*kernel) == mac_) return;
  if (is_same) {
    mac_ = MacOf(*kernel);
    return while_idle([&] {
      for (UdpQueue& queue : queues_) queue.reader.SetMac(mac_);
    });
  }
  // Two sockets cannot be bound to the port: the former ones are closed first.
  while_idle([&] {
    drops_before_ += Drops();
    for (UdpQueue& queue : queues_) {
      queue.wake.RemoveAll();
      queue.sockets = {};
    }
  });
  ifindex_ = 0;
  absl::StatusOr<Opened> opened = Open();
  if (!opened.ok()) return;
  while_idle([&] { static_cast<void>(Exchange(*opened)); });
}

bool UdpPort::Exchange(Opened& opened) {
  bool wakes = true;
  mac_ = MacOf(opened.kernel);
  for (uint16_t i = 0; i < queues(); ++i) {
    UdpQueue& queue = queues_[i];
    std::swap(queue.sockets, opened.sockets[i]);
    queue.reader.SetMac(mac_);
    for (const Fd* fd : {&queue.sockets.ipv4.receiver, &queue.sockets.ipv6.receiver}) {
      if (*fd) wakes &= queue.wake.Add(fd->get());
    }
  }
  if (receive_buffer_bytes_ == 0) receive_buffer_bytes_ = SmallestBuffer();
  ifindex_ = wakes ? opened.kernel.ifindex : 0;
  return wakes;
}

absl::StatusOr<UdpPort::Opened> UdpPort::Open() const {
  absl::StatusOr<KernelInterface> kernel = ReadInterface();
  if (!kernel.ok()) return kernel.status();
  Opened opened{.sockets = {}, .kernel = *std::move(kernel)};
  if (queues() > 1) {
    // Sockets of queues share their port, with those of any other daemon of this user too: one that
    // does not share is refused where there are such.
    absl::StatusOr<UdpSockets> alone = OpenUdpSockets(place_, /*is_shared=*/false);
    if (!alone.ok()) return alone.status();
  }
  for (uint16_t i = 0; i < queues(); ++i) {
    absl::StatusOr<UdpSockets> sockets = OpenUdpSockets(place_, queues() > 1);
    if (!sockets.ok()) return sockets.status();
    opened.sockets.push_back(*std::move(sockets));
  }
  return opened;
}

UdpPlace PlaceOf(const DeviceArguments& arguments) {
  UdpPlace place{.interface = arguments.Interface(), .addresses = {}};
  if (!place.interface.empty()) return place;
  const std::string addresses = arguments.Value("address");
  for (const absl::string_view part : absl::StrSplit(addresses, '+', absl::SkipEmpty())) {
    const std::optional<Gid> gid = ParseGid(std::string(part));
    if (gid) place.addresses.push_back(*gid);
  }
  return place;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenUdpPort(const DeviceArguments& arguments,
                                                  const DeviceOptions& options, rte_mempool* pool) {
  if (absl::Status status = CheckDevice(arguments, options); !status.ok()) return status;
  UdpPlace place = PlaceOf(arguments);
  const std::string name = place.interface.empty() ? arguments.Value("address") : place.interface;
  auto port = std::make_unique<UdpPort>(std::move(place), StableMac(arguments), options, pool);
  absl::StatusOr<UdpPort::Opened> opened = port->Open();
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("udp=", name, ": ", opened.status().message()));
  }
  if (!port->Exchange(*opened)) return absl::InternalError("udp: epoll");
  return port;
}

}  // namespace uroce::drivers
