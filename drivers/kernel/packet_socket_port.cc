// SPDX-License-Identifier: Apache-2.0
// A kernel interface as a port, by packet sockets (packet(7)): packets of a flow that leave
// together are one superframe for the kernel, and superframes that arrive are taken apart.
#include "drivers/kernel/packet_socket_port.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_checks.h"
#include "drivers/kernel/frame_groups.h"
#include "drivers/kernel/kernel_interface.h"
#include "drivers/kernel/packet_frames.h"
#include "pipeline/base/counters.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/wake.h"

namespace uroce::drivers {
namespace {

constexpr int kReceiveBufferBytes = 32 << 20;
constexpr int kSendBufferBytes = 4 << 20;

template <typename Value>
bool Set(int fd, int level, int option, const Value& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// The privileged option goes beyond net.core.*mem_max.
bool SetBuffer(int fd, int privileged, int plain, int bytes) {
  return Set(fd, SOL_SOCKET, privileged, bytes) || Set(fd, SOL_SOCKET, plain, bytes);
}

constexpr sock_filter Load(uint16_t size, uint32_t offset) {
  return {static_cast<uint16_t>(BPF_LD | size | BPF_ABS), 0, 0, offset};
}
/// Goes on if the value is `value`, else to the instruction that is `otherwise` further.
constexpr sock_filter IfEqual(uint32_t value, uint8_t then, uint8_t otherwise) {
  return {BPF_JMP | BPF_JEQ | BPF_K, then, otherwise, value};
}

/// Passes UDP to port 4791, over IPv4 unless it is a fragment but the first, and over IPv6. The
/// kernel has moved a VLAN tag out of the frame.
bool PassRoceOnly(int fd) {
  constexpr uint32_t kUdp = 17;
  constexpr uint32_t kRocePort = 4791;
  constexpr uint32_t kWhole = 0x40000;
  static constexpr std::array<sock_filter, 16> kProgram = {{
      Load(BPF_H, 12),                             // 0
      IfEqual(ETH_P_IP, 0, 7),                     // 1: else to 9
      Load(BPF_B, 23),                             // 2
      IfEqual(kUdp, 0, 11),                        // 3: else to 15
      Load(BPF_H, 20),                             // 4
      {BPF_JMP | BPF_JSET | BPF_K, 9, 0, 0x1fff},  // 5: a fragment: to 15
      {BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14},       // 6: X = bytes of the IP header
      {BPF_LD | BPF_H | BPF_IND, 0, 0, 14 + 2},    // 7
      IfEqual(kRocePort, 5, 6),                    // 8: to 14 or 15
      IfEqual(ETH_P_IPV6, 0, 5),                   // 9: else to 15
      Load(BPF_B, 14 + 6),                         // 10
      IfEqual(kUdp, 0, 3),                         // 11: else to 15
      Load(BPF_H, 14 + 40 + 2),                    // 12
      IfEqual(kRocePort, 0, 1),                    // 13: to 14 or 15
      {BPF_RET | BPF_K, 0, 0, kWhole},             // 14
      {BPF_RET | BPF_K, 0, 0, 0},                  // 15
  }};
  const sock_fprog program = {.len = kProgram.size(),
                              .filter = const_cast<sock_filter*>(kProgram.data())};
  return Set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

bool Bind(int fd, int ifindex) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = ifindex;
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

absl::Status Failed(absl::string_view step) {
  return absl::InternalError(absl::StrCat("packet socket: ", step, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Fd> OpenPacketSocket(const PacketSocketOptions& options) {
  // Protocol 0: nothing is received until the socket is bound.
  Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Failed("socket");
  const int on = 1;
  if (!Set(fd.get(), SOL_PACKET, PACKET_VNET_HDR, on)) return Failed("PACKET_VNET_HDR");
  if (!Set(fd.get(), SOL_PACKET, PACKET_AUXDATA, on)) return Failed("PACKET_AUXDATA");
  if (!Set(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, on)) {
    return Failed("PACKET_IGNORE_OUTGOING");
  }
  if (!SetBuffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF, kReceiveBufferBytes)) {
    return Failed("SO_RCVBUF");
  }
  if (!SetBuffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF, kSendBufferBytes)) return Failed("SO_SNDBUF");
  if (!options.takes_all_frames && !PassRoceOnly(fd.get())) return Failed("SO_ATTACH_FILTER");
  if (!Bind(fd.get(), options.ifindex)) return Failed("bind");
  const int fanout = options.fanout_id | PACKET_FANOUT_HASH << 16;
  if (options.sockets > 1 && !Set(fd.get(), SOL_PACKET, PACKET_FANOUT, fanout)) {
    return Failed("PACKET_FANOUT");
  }
  return fd;
}

namespace {

constexpr uint16_t kRoom = FrameWriter::kMostFrames;
constexpr uint64_t kUnknownSpeedBps = 10'000'000'000;

/// What one worker drives.
struct alignas(64) SocketQueue {
  Fd socket;  ///< Changed while no worker is inside.
  ReceiveWake wake;
  FrameReader reader;
  FrameWriter writer;
  TransmitGate gate;
  std::atomic<uint64_t> tx_dropped{0};
  std::atomic<uint64_t> rx_dropped{0};
};

class PacketSocketPort final : public Port {
 public:
  PacketSocketPort(std::string interface, const DeviceOptions& options, bool takes_all_frames,
                   rte_mempool* pool)
      : interface_(std::move(interface)),
        mtu_bytes_(options.mtu_bytes),
        takes_all_frames_(takes_all_frames),
        pool_(pool),
        queues_(std::min(options.queues, options.workers)) {}

  uint16_t queues() const override { return static_cast<uint16_t>(queues_.size()); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override {
    return queues_[queue].gate.is_open() ? kRoom : 0;
  }
  int wait_fd(uint16_t queue) const override { return queues_[queue].wake.fd(); }
  bool BeforeSleep(uint16_t queue) override { return !queues_[queue].reader.has_frames(); }
  void AfterSleep(uint16_t queue) override { queues_[queue].wake.Drain(); }
  Nanos NextDeadline(uint16_t queue) const override { return queues_[queue].gate.opens_at(); }

  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;

  /// What belongs to one interface of the name: another one may get it later.
  struct Opened {
    std::vector<Fd> sockets;
    KernelMute mute;
    int ifindex = 0;
  };
  absl::StatusOr<Opened> Open() const;
  /// Uses what was opened; its sockets are the former ones then. Called while no worker is inside.
  /// False: a socket cannot wake its worker; Maintain tries again.
  [[nodiscard]] bool Exchange(Opened& opened);

 private:
  absl::StatusOr<std::vector<Fd>> OpenSockets(int ifindex) const;

  const std::string interface_;
  const uint32_t mtu_bytes_;  ///< 0: the interface's.
  const bool takes_all_frames_;
  rte_mempool* const pool_;
  std::vector<SocketQueue> queues_;
  std::optional<KernelMute> mute_;
  int ifindex_ = 0;  ///< Of the interface that the sockets are bound to; 0: they must be opened.
  mutable PacketDrops packet_drops_;  ///< Mutable: a query of the kernel resets its counts.
};

// ---- worker ----

uint16_t PacketSocketPort::ReceiveBurst(uint16_t index, rte_mbuf** frames, uint16_t count,
                                        Nanos now) {
  SocketQueue& queue = queues_[index];
  queue.gate.Advance(now);
  if (!queue.socket) return 0;
  const uint16_t got = queue.reader.Receive(queue.socket.get(), pool_, frames, count);
  if (const uint64_t dropped = queue.reader.TakeDropped(); dropped != 0) {
    Count(queue.rx_dropped, dropped);
  }
  return got;
}

uint16_t PacketSocketPort::TransmitBurst(uint16_t index, rte_mbuf** frames, uint16_t count,
                                         Nanos now) {
  SocketQueue& queue = queues_[index];
  if (!queue.gate.is_open()) return 0;
  const FrameWriter::Sent sent = queue.socket ? queue.writer.Send(queue.socket.get(), frames, count)
                                              : FrameWriter::Sent{.is_full = true};
  if (sent.dropped != 0) Count(queue.tx_dropped, sent.dropped);
  if (!queue.gate.GivesUp(sent.frames != 0, sent.is_full, now)) return sent.frames;
  rte_pktmbuf_free_bulk(frames + sent.frames, count - sent.frames);
  Count(queue.tx_dropped, count - sent.frames);
  return count;
}

// ---- control ----

PortInfo PacketSocketPort::Info() const {
  PortInfo info;
  info.driver = kPacketSocketDriver;
  info.interface = interface_;
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface_);
  if (!kernel.ok()) {
    info.why_down = std::string(kernel.status().message());
    return info;
  }
  info.mac = kernel->mac;
  info.ifindex = kernel->ifindex;
  info.link_up = kernel->link_up && ifindex_ == kernel->ifindex;
  info.mtu_bytes = kernel->mtu_bytes;
  if (mtu_bytes_ != 0) info.mtu_bytes = std::min(info.mtu_bytes, mtu_bytes_);
  info.speed_bps = kernel->speed_bps != 0 ? kernel->speed_bps : kUnknownSpeedBps;
  return info;
}

PortCounters PacketSocketPort::counters() const {
  PortCounters counters{.tx_discards = 0, .rx_missed = packet_drops_.Count(), .rx_damaged = 0};
  for (const SocketQueue& queue : queues_) {
    counters.tx_discards += queue.tx_dropped.load(std::memory_order_relaxed);
    counters.rx_missed += queue.rx_dropped.load(std::memory_order_relaxed);
  }
  return counters;
}

/// A packet socket stays bound to an interface that was deleted. What cannot be opened yet is tried
/// again at the next call. Workers stand still for the exchange of the sockets alone: to open and
/// to close one takes the kernel milliseconds.
void PacketSocketPort::Maintain(WhileIdle while_idle) {
  packet_drops_.Count();
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface_);
  if (!kernel.ok() || kernel->ifindex == ifindex_) return;
  mute_.reset();
  absl::StatusOr<Opened> opened = Open();
  if (!opened.ok()) return;
  while_idle([&] { static_cast<void>(Exchange(*opened)); });
}

bool PacketSocketPort::Exchange(Opened& opened) {
  bool wakes = true;
  std::vector<int> fds;
  for (uint16_t i = 0; i < queues(); ++i) {
    SocketQueue& queue = queues_[i];
    queue.wake.RemoveAll();
    std::swap(queue.socket, opened.sockets[i]);
    wakes &= queue.wake.Add(queue.socket.get());
    fds.push_back(queue.socket.get());
  }
  packet_drops_.Watch(std::move(fds));
  mute_.emplace(std::move(opened.mute));
  ifindex_ = wakes ? opened.ifindex : 0;
  return wakes;
}

absl::StatusOr<std::vector<Fd>> PacketSocketPort::OpenSockets(int ifindex) const {
  // Of several daemons on an interface each receives all of its frames.
  static std::atomic<uint16_t> fanouts{0};
  const auto fanout_id = static_cast<uint16_t>(getpid() + fanouts.fetch_add(1) * 4099);
  std::vector<Fd> sockets;
  for (uint16_t i = 0; i < queues(); ++i) {
    absl::StatusOr<Fd> socket = OpenPacketSocket({.ifindex = ifindex,
                                                  .takes_all_frames = takes_all_frames_,
                                                  .sockets = queues(),
                                                  .fanout_id = fanout_id});
    if (!socket.ok()) return socket.status();
    sockets.push_back(*std::move(socket));
  }
  return sockets;
}

absl::StatusOr<PacketSocketPort::Opened> PacketSocketPort::Open() const {
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(interface_);
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<KernelMute> mute = KernelMute::Open(interface_);
  if (!mute.ok()) return mute.status();
  absl::StatusOr<std::vector<Fd>> sockets = OpenSockets(kernel->ifindex);
  if (!sockets.ok()) return sockets.status();
  return Opened{*std::move(sockets), *std::move(mute), kernel->ifindex};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenPacketSocketPort(const DeviceArguments& arguments,
                                                           const DeviceOptions& options,
                                                           bool takes_all_frames,
                                                           rte_mempool* pool) {
  if (absl::Status status = CheckDevice(arguments, options); !status.ok()) return status;
  auto port =
      std::make_unique<PacketSocketPort>(arguments.Interface(), options, takes_all_frames, pool);
  absl::StatusOr<PacketSocketPort::Opened> opened = port->Open();
  if (!opened.ok()) {
    return absl::Status(opened.status().code(), absl::StrCat("iface=", arguments.Interface(), ": ",
                                                             opened.status().message()));
  }
  if (!port->Exchange(*opened)) return absl::InternalError("packet socket: epoll");
  return port;
}

}  // namespace uroce::drivers
