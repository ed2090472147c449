// SPDX-License-Identifier: Apache-2.0
#include "drivers/packet_socket/packet_socket_port.h"

#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_checks.h"
#include "drivers/dpdk/kernel_interface.h"
#include "drivers/dpdk/kernel_mute.h"
#include "drivers/dpdk/packet_drops.h"
#include "drivers/packet_socket/frame_reader.h"
#include "drivers/packet_socket/frame_writer.h"
#include "drivers/packet_socket/packet_socket.h"
#include "drivers/packet_socket/transmit_gate.h"
#include "drivers/receive_wake.h"
#include "nic/base/fd.h"
#include "pipeline/base/counters.h"

namespace uroce::drivers {
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
