// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/kernel_ports.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/kernel/datagrams.h"
#include "drivers/kernel/kernel_interface.h"
#include "drivers/kernel/packet_frames.h"
#include "drivers/kernel/socket_frames.h"
#include "pipeline/base/observation.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/frames.h"

namespace uroce::drivers {
namespace {

/// Those of a queue's sockets that frames arrive at.
std::vector<int> ReceiversOf(const Fd& socket) { return {socket.get()}; }
std::vector<int> ReceiversOf(const UdpSockets& sockets) {
  std::vector<int> receivers;
  for (const Fd* fd : {&sockets.ipv4.receiver, &sockets.ipv6.receiver}) {
    if (*fd) receivers.push_back(fd->get());
  }
  return receivers;
}

/// Whether the limit has ended the turn of `frames`, so that more frames are likely to follow.
bool IsFullTurn(std::span<rte_mbuf* const> frames) {
  uint64_t bytes = 0;
  for (const rte_mbuf* frame : frames) bytes += frame->data_len;
  return frames.size() >= kSocketTurn.frames || bytes >= kSocketTurn.bytes;
}

/// What ports by packet sockets and ports by UDP sockets have in common. `Sockets` are those of one
/// queue; `Reader` and `Writer` are their back end.
template <typename Sockets, typename Reader, typename Writer>
class SocketPort : public Port {
 public:
  SocketPort(const PortOptions& options, rte_mempool* pool)
      : mtu_bytes_(options.mtu_bytes),
        pool_(pool),
        queues_(std::min(options.queues, options.workers)) {}

  uint16_t queues() const final { return static_cast<uint16_t>(queues_.size()); }

  // ---- worker ----

  uint16_t ReceiveBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) final {
    return Receive(index, frames, count, /*whole=*/false, now);
  }
  uint16_t ReceiveWhole(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) final {
    return Receive(index, frames, count, /*whole=*/true, now);
  }
  uint16_t TransmitBurst(uint16_t index, rte_mbuf** frames, uint16_t count, Nanos now) final {
    Queue& queue = queues_[index];
    if (!queue.gate.is_open()) return 0;
    const SentFrames sent =
        queue.writer.Send(queue.sockets, frames, count, IsFullTurn({frames, count}));
    if (sent.dropped != 0) Count(queue.tx_dropped, sent.dropped);
    if (!queue.gate.GivesUp(sent.frames != 0, sent.is_full, now)) return sent.frames;
    const std::span<rte_mbuf*> rest(frames + sent.frames, count - sent.frames);
    for (const rte_mbuf* frame : rest) Count(queue.tx_dropped, PacketsOf(*frame));
    rte_pktmbuf_free_bulk(rest.data(), static_cast<unsigned>(rest.size()));
    return count;
  }
  uint16_t TransmitRoom(uint16_t index) const final {
    return queues_[index].gate.is_open() ? FrameGroups::kMostFrames : 0;
  }
  bool takes_superframes(uint16_t index) const final {
    return queues_[index].writer.sends_superframes();
  }
  TurnLimit turn_limit() const final { return kSocketTurn; }
  int wait_fd(uint16_t index) const final { return queues_[index].wake.fd(); }
  bool BeforeSleep(uint16_t index) final { return !queues_[index].reader.has_frames(); }
  void AfterSleep(uint16_t index) final {
    queues_[index].wake.Drain();
    queues_[index].reader.OnWake();
  }
  Nanos NextDeadline(uint16_t index) const final { return queues_[index].gate.opens_at(); }

 protected:
  /// What one worker drives.
  struct alignas(64) Queue {
    Sockets sockets;  ///< Changed while no worker is inside.
    ReceiveWake wake;
    Reader reader;
    Writer writer;
    TransmitGate gate;
    std::atomic<uint64_t> tx_dropped{0};
    std::atomic<uint64_t> rx_dropped{0};
    std::atomic<uint64_t> rx_fitted{0};
  };

  // ---- control ----

  /// What `state` says of the port, but for its MAC and link.
  void Describe(const InterfaceState& state, PortInfo& info) const {
    info.interface = state.name;
    info.ifindex = state.ifindex;
    info.mtu_bytes = state.mtu_bytes;
    if (mtu_bytes_ != 0) info.mtu_bytes = std::min(info.mtu_bytes, mtu_bytes_);
    info.speed_bps = state.speed_bps != 0 ? state.speed_bps : kUnknownSpeedBps;
  }
  /// Adds what the queues counted.
  void AddCounts(PortCounters& counters) const {
    for (const Queue& queue : queues_) {
      counters.tx_discards += queue.tx_dropped.load(std::memory_order_relaxed);
      counters.rx_missed += queue.rx_dropped.load(std::memory_order_relaxed);
      if (!counters.rx_fitted) continue;
      *counters.rx_fitted += queue.rx_fitted.load(std::memory_order_relaxed);
    }
  }
  /// Uses the sockets that were opened on interface number `ifindex`; `opened` are the former ones
  /// then. Called while no worker is inside. False: a socket cannot wake its worker; Maintain tries
  /// again.
  [[nodiscard]] bool Exchange(std::vector<Sockets>& opened, int ifindex) {
    bool wakes = true;
    for (uint16_t i = 0; i < queues(); ++i) {
      Queue& queue = queues_[i];
      queue.wake.RemoveAll();
      std::swap(queue.sockets, opened[i]);
      for (const int fd : ReceiversOf(queue.sockets)) wakes &= queue.wake.Add(fd);
    }
    ifindex_ = wakes ? ifindex : 0;
    return wakes;
  }

  std::vector<Queue>& all_queues() { return queues_; }
  const std::vector<Queue>& all_queues() const { return queues_; }
  int ifindex() const { return ifindex_; }
  /// They must be opened.
  void ForgetInterface() { ifindex_ = 0; }

 private:
  uint16_t Receive(uint16_t index, rte_mbuf** frames, uint16_t count, bool whole, Nanos now) {
    Queue& queue = queues_[index];
    queue.gate.Advance(now);
    const uint16_t got = queue.reader.Receive(queue.sockets, pool_, frames, count, whole);
    const auto [dropped, fitted] = queue.reader.TakeCounts();
    if (dropped != 0) Count(queue.rx_dropped, dropped);
    if (fitted != 0) Count(queue.rx_fitted, fitted);
    return got;
  }

  const uint32_t mtu_bytes_;  ///< 0: the interface's.
  rte_mempool* const pool_;
  std::vector<Queue> queues_;
  int ifindex_ = 0;  ///< Of the interface that the sockets were opened on; 0: they must be opened.
};

// ---- packet sockets ----

class PacketSocketPort final : public SocketPort<Fd, PacketReader, PacketWriter> {
 public:
  PacketSocketPort(std::string interface, const PortOptions& options, rte_mempool* pool)
      : SocketPort(options, pool),
        interface_(std::move(interface)),
        takes_all_frames_(options.takes_all_frames) {}

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
  /// See SocketPort::Exchange.
  [[nodiscard]] bool Use(Opened& opened);

 private:
  absl::StatusOr<std::vector<Fd>> OpenSockets(int ifindex) const;

  const std::string interface_;
  const bool takes_all_frames_;
  std::optional<KernelMute> mute_;
  std::string why_closed_;  ///< Why the interface that now has the name could not be opened, or "".
  mutable PacketDrops packet_drops_;  ///< Mutable: a query of the kernel resets its counts.
};

PortInfo PacketSocketPort::Info() const {
  PortInfo info;
  info.driver = kPacketSocketDriver;
  info.interface = interface_;
  const absl::StatusOr<InterfaceState> state = ReadInterface(interface_);
  if (!state.ok()) {
    info.why_down = std::string(state.status().message());
    return info;
  }
  Describe(*state, info);
  info.mac = state->mac;
  info.link_up = state->link_up && ifindex() == state->ifindex;
  info.why_down = why_closed_;
  return info;
}

PortCounters PacketSocketPort::counters() const {
  PortCounters counters;
  counters.rx_missed = packet_drops_.Count();
  AddCounts(counters);
  return counters;
}

/// A packet socket stays bound to an interface that was deleted. What cannot be opened yet is tried
/// again at the next call. Workers stand still for the exchange of the sockets alone: to open and
/// to close one takes the kernel milliseconds.
void PacketSocketPort::Maintain(WhileIdle while_idle) {
  packet_drops_.Count();
  const absl::StatusOr<InterfaceState> state = ReadInterface(interface_);
  if (!state.ok()) return;
  // Blocks come back to the sender's CPU where both ends are on this machine, as on a veth.
  const bool uses_blocks = state->driver == "veth" && HasFreeBlocks();
  for (Queue& queue : all_queues()) queue.writer.set_uses_blocks(uses_blocks);
  if (state->ifindex == ifindex()) return;
  mute_.reset();
  absl::StatusOr<Opened> opened = Open();
  why_closed_ = std::string(opened.status().message());
  if (!opened.ok()) return;
  while_idle([&] { static_cast<void>(Use(*opened)); });
}

bool PacketSocketPort::Use(Opened& opened) {
  const bool wakes = Exchange(opened.sockets, opened.ifindex);
  std::vector<int> fds;
  for (const Queue& queue : all_queues()) fds.push_back(queue.sockets.get());
  packet_drops_.Watch(std::move(fds));
  mute_.emplace(std::move(opened.mute));
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
  const absl::StatusOr<InterfaceState> state = ReadInterface(interface_);
  if (!state.ok()) return state.status();
  absl::StatusOr<KernelMute> mute = KernelMute::Open(interface_);
  if (!mute.ok()) return mute.status();
  absl::StatusOr<std::vector<Fd>> sockets = OpenSockets(state->ifindex);
  if (!sockets.ok()) return sockets.status();
  return Opened{*std::move(sockets), *std::move(mute), state->ifindex};
}

// ---- UDP sockets ----

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

class UdpPort final : public SocketPort<UdpSockets, DatagramReader, DatagramWriter> {
 public:
  UdpPort(UdpPlace place, const Mac& mac, const PortOptions& options, rte_mempool* pool)
      : SocketPort(options, pool), place_(std::move(place)), own_mac_(mac) {}

  uint64_t receive_buffer_bytes() const override { return receive_buffer_bytes_; }
  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;

  /// What belongs to one interface of the name: another one may get it later.
  struct Opened {
    std::vector<UdpSockets> sockets;
    InterfaceState state;
  };
  absl::StatusOr<Opened> Open() const;
  /// See SocketPort::Exchange.
  [[nodiscard]] bool Use(Opened& opened);

 private:
  /// The interface with the addresses. Errors: NotFound.
  absl::StatusOr<InterfaceState> ReadPlace() const;
  Mac MacOf(const InterfaceState& state) const {
    return place_.interface.empty() || state.mac == Mac{} ? own_mac_ : state.mac;
  }
  void SetMac(const Mac& mac);
  uint64_t Drops() const;
  /// The smallest buffer of a queue's sockets: peers of either family may fill theirs.
  uint64_t SmallestBuffer() const;

  const UdpPlace place_;
  const Mac own_mac_;                  ///< Made up, for addresses.
  Mac mac_{};                          ///< That of frames.
  uint64_t receive_buffer_bytes_ = 0;  ///< Of the sockets that were opened first.
  uint64_t drops_before_ = 0;          ///< Of sockets that are closed.
};

absl::StatusOr<InterfaceState> UdpPort::ReadPlace() const {
  if (!place_.interface.empty()) return ReadInterface(place_.interface);
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
  return ReadInterface(interface);
}

PortInfo UdpPort::Info() const {
  PortInfo info;
  info.driver = kUdpDriver;
  info.peer_mac = kUdpPeerMac;
  info.interface = place_.interface;
  info.mac = own_mac_;
  const absl::StatusOr<InterfaceState> state = ReadPlace();
  if (!state.ok()) {
    if (info.interface.empty()) info.interface = "none";
    info.why_down = std::string(state.status().message());
    return info;
  }
  Describe(*state, info);
  info.mac = MacOf(*state);
  info.link_up = state->link_up && ifindex() != 0;
  return info;
}

uint64_t UdpPort::Drops() const {
  uint64_t drops = 0;
  for (const Queue& queue : all_queues()) {
    drops += SocketDrops(queue.sockets.ipv4.receiver) + SocketDrops(queue.sockets.ipv6.receiver);
  }
  return drops;
}

uint64_t UdpPort::SmallestBuffer() const {
  const UdpSockets& sockets = all_queues().front().sockets;
  const uint64_t ipv4 = SocketBufferBytes(sockets.ipv4.receiver);
  const uint64_t ipv6 = SocketBufferBytes(sockets.ipv6.receiver);
  return ipv4 == 0 || ipv6 == 0 ? std::max(ipv4, ipv6) : std::min(ipv4, ipv6);
}

PortCounters UdpPort::counters() const {
  PortCounters counters;
  counters.rx_missed = drops_before_ + Drops();
  counters.rx_fitted = 0;
  AddCounts(counters);
  return counters;
}

/// A socket stays bound to an interface that was deleted. What cannot be opened yet is tried again
/// at the next call. Workers stand still for the exchange of the sockets alone.
void UdpPort::Maintain(WhileIdle while_idle) {
  const absl::StatusOr<InterfaceState> state = ReadPlace();
  if (!state.ok()) return;
  const bool is_same = state->ifindex == ifindex() || (ifindex() != 0 && place_.interface.empty());
  if (is_same && MacOf(*state) == mac_) return;
  if (is_same) return while_idle([&] { SetMac(MacOf(*state)); });
  // Two sockets cannot be bound to the port: the former ones are closed first.
  while_idle([&] {
    drops_before_ += Drops();
    for (Queue& queue : all_queues()) {
      queue.wake.RemoveAll();
      queue.sockets = {};
    }
  });
  ForgetInterface();
  absl::StatusOr<Opened> opened = Open();
  if (!opened.ok()) return;
  while_idle([&] { static_cast<void>(Use(*opened)); });
}

void UdpPort::SetMac(const Mac& mac) {
  mac_ = mac;
  for (Queue& queue : all_queues()) queue.reader.SetMac(mac);
}

bool UdpPort::Use(Opened& opened) {
  SetMac(MacOf(opened.state));
  const bool wakes = Exchange(opened.sockets, opened.state.ifindex);
  if (receive_buffer_bytes_ == 0) receive_buffer_bytes_ = SmallestBuffer();
  return wakes;
}

absl::StatusOr<UdpPort::Opened> UdpPort::Open() const {
  absl::StatusOr<InterfaceState> state = ReadPlace();
  if (!state.ok()) return state.status();
  Opened opened{.sockets = {}, .state = *std::move(state)};
  if (queues() > 1) {
    // Sockets of queues share their port, with those of any other daemon of this user too: one that
    // does not share is refused where there are such.
    absl::StatusOr<UdpSockets> alone = OpenUdpSockets(place_, 1);
    if (!alone.ok()) return alone.status();
  }
  for (uint16_t i = 0; i < queues(); ++i) {
    absl::StatusOr<UdpSockets> sockets = OpenUdpSockets(place_, queues());
    if (!sockets.ok()) return sockets.status();
    opened.sockets.push_back(*std::move(sockets));
  }
  return opened;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenPort(const KernelInterface& kind,
                                               const PortOptions& options, rte_mempool* pool) {
  absl::Status status =
      CheckInterface(kind.device, kind.interface, options, {{CAP_NET_RAW, "CAP_NET_RAW"}});
  if (!status.ok()) return status;
  auto port = std::make_unique<PacketSocketPort>(kind.interface, options, pool);
  absl::StatusOr<PacketSocketPort::Opened> opened = port->Open();
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("iface=", kind.interface, ": ", opened.status().message()));
  }
  if (!port->Use(*opened)) return absl::InternalError("packet socket: epoll");
  return port;
}

absl::StatusOr<std::unique_ptr<Port>> OpenPort(const UdpSocket& kind, const PortOptions& options,
                                               rte_mempool* pool) {
  if (const std::string& interface = kind.place.interface; !interface.empty()) {
    absl::Status status = CheckInterface(kind.device, interface, options, {});
    if (!status.ok()) return status;
  }
  auto port = std::make_unique<UdpPort>(kind.place, StableMac(kind.identity), options, pool);
  absl::StatusOr<UdpPort::Opened> opened = port->Open();
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("udp=", kind.text, ": ", opened.status().message()));
  }
  if (!port->Use(*opened)) return absl::InternalError("udp: epoll");
  return port;
}

}  // namespace uroce::drivers
