// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/sockets.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {
namespace {

using wire::kRoceUdpPort;

constexpr int kReceiveBufferBytes = 32 << 20;
constexpr int kSendBufferBytes = 4 << 20;

template <typename Value>
bool Set(int fd, int level, int option, const Value& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}
bool TurnOn(int fd, int level, int option) { return Set(fd, level, option, 1); }

/// The privileged option goes beyond net.core.*mem_max.
bool SetBuffer(int fd, int privileged, int plain, int bytes) {
  return Set(fd, SOL_SOCKET, privileged, bytes) || Set(fd, SOL_SOCKET, plain, bytes);
}

/// A filter of one instruction: keep 0 bytes.
bool DropAll(int fd) {
  sock_filter keep_nothing = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &keep_nothing};
  return Set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

bool BindToInterface(int fd, const std::string& interface) {
  const auto length = static_cast<socklen_t>(interface.size());
  return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(), length) == 0;
}

/// No address: any.
bool BindUdp(int fd, bool is_ipv6, const std::optional<Gid>& address, uint16_t port) {
  if (is_ipv6) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_port = htons(port);
    if (address) std::memcpy(&at.sin6_addr, address->bytes.data(), 16);
    return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  if (address) std::memcpy(&at.sin_addr, address->bytes.data() + 12, 4);
  return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}

// ---- packet sockets ----

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
  constexpr uint32_t kRocePort = wire::kRoceUdpPort;
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

// Sockets that share what arrives: each queue gets the packets for its queue pairs.

constexpr uint32_t kDestinationOffset = 4;  ///< In a BTH: of the word that ends in the QPN.

/// The end of a program that returns the queue of a destination: that of the worker that the number
/// says (OwnerOf) if each worker has a queue. The word with the QPN was loaded before.
constexpr std::array<sock_filter, 4> ReturnQueue(uint32_t queues) {
  return {{{BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xffffff},
           {BPF_ALU | BPF_MUL | BPF_K, 0, 0, queues},
           {BPF_ALU | BPF_RSH | BPF_K, 0, 0, 24},
           {BPF_RET | BPF_A, 0, 0, 0}}};
}

/// Of the group of `fd`, whose sockets were bound in the order of their queues. The program begins
/// at the BTH. A packet that is too short goes to the first queue.
bool ShareDatagrams(int fd, uint32_t queues) {
  const auto end = ReturnQueue(queues);
  std::array<sock_filter, 5> program = {
      {Load(BPF_W, kDestinationOffset), end[0], end[1], end[2], end[3]}};
  return Set(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
             sock_fprog{.len = program.size(), .filter = program.data()});
}

/// Of the fanout group of `fd`, whose sockets joined in the order of their queues. The program
/// begins at the IP header. All but RoCE goes to the first queue, so flows of a port's host keep
/// their order.
bool ShareFrames(int fd, uint32_t queues) {
  constexpr uint32_t kUdp = 17;
  constexpr uint32_t kUdpBytes = 8;
  constexpr uint32_t kIpv6Bytes = 40;
  const auto end = ReturnQueue(queues);
  std::array<sock_filter, 24> program = {{
      Load(BPF_B, 0),                               // 0: the version
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf0},      // 1
      IfEqual(0x60, 10, 0),                         // 2: IPv6: to 13
      IfEqual(0x40, 0, 19),                         // 3: else to 23
      Load(BPF_B, 9),                               // 4
      IfEqual(kUdp, 0, 17),                         // 5: else to 23
      Load(BPF_H, 6),                               // 6
      {BPF_JMP | BPF_JSET | BPF_K, 15, 0, 0x1fff},  // 7: a fragment: to 23
      Load(BPF_B, 0),                               // 8
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf},       // 9
      {BPF_ALU | BPF_LSH | BPF_K, 0, 0, 2},         // 10
      {BPF_MISC | BPF_TAX, 0, 0, 0},                // 11: X = bytes of the header
      {BPF_JMP | BPF_JA, 0, 0, 3},                  // 12: to 16
      Load(BPF_B, 6),                               // 13
      IfEqual(kUdp, 0, 8),                          // 14: else to 23
      {BPF_LDX | BPF_IMM, 0, 0, kIpv6Bytes},        // 15
      {BPF_LD | BPF_H | BPF_IND, 0, 0, 2},          // 16
      IfEqual(kRoceUdpPort, 0, 5),                  // 17: else to 23
      {BPF_LD | BPF_W | BPF_IND, 0, 0, kUdpBytes + kDestinationOffset},  // 18
      end[0],                                                            // 19
      end[1],                                                            // 20
      end[2],                                                            // 21
      end[3],                                                            // 22
      {BPF_RET | BPF_K, 0, 0, 0},                                        // 23
  }};
  return Set(fd, SOL_PACKET, PACKET_FANOUT_DATA,
             sock_fprog{.len = program.size(), .filter = program.data()});
}

bool BindPacketSocket(int fd, int ifindex) {
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
  if (!BindPacketSocket(fd.get(), options.ifindex)) return Failed("bind");
  if (options.sockets == 1) return fd;
  const int fanout = options.fanout_id | PACKET_FANOUT_CBPF << 16;
  if (!Set(fd.get(), SOL_PACKET, PACKET_FANOUT, fanout)) return Failed("PACKET_FANOUT");
  if (!ShareFrames(fd.get(), options.sockets)) return Failed("PACKET_FANOUT_DATA");
  return fd;
}

uint64_t PacketDrops::Count() {
  for (const int socket : sockets_) {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    if (getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) {
      total_ += stats.tp_drops;
    }
  }
  return total_;
}

// ---- UDP sockets ----

namespace {

constexpr uint16_t kFirstFlowPort = 0xc000;
constexpr int kPortAttempts = 64;

/// What all UDP sockets of a family have in common.
struct Kind {
  bool is_ipv6 = false;
  std::string interface;
  std::optional<Gid> address;
  uint16_t queues = 1;

  std::string Text(uint16_t port) const {
    char text[INET6_ADDRSTRLEN] = "";
    if (address && is_ipv6) inet_ntop(AF_INET6, address->bytes.data(), text, sizeof text);
    if (address && !is_ipv6) inet_ntop(AF_INET, address->bytes.data() + 12, text, sizeof text);
    return absl::StrCat("UDP port ", port, " of ", address ? text : interface.c_str(),
                        is_ipv6 ? ", IPv6" : "");
  }
};

absl::Status StepFailed(const Kind& kind, uint16_t port, absl::string_view step) {
  const int error = errno;
  const std::string what = absl::StrCat(
      kind.Text(port), ": ", step, ": ", std::strerror(error),
      error == EADDRINUSE ? "; another daemon or rdma_rxe has it (uroce doctor names it)" : "");
  if (error == EADDRINUSE) return absl::AlreadyExistsError(what);
  return error == EADDRNOTAVAIL ? absl::NotFoundError(what) : absl::InternalError(what);
}

/// With DF, an unconnected socket sends identification 0, and segments of a superframe their index:
/// the kernel gives identifications only to what may be fragmented.
bool ForbidFragments(int fd, bool is_ipv6) {
  if (!is_ipv6) return Set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  return Set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
         TurnOn(fd, IPPROTO_IPV6, IPV6_DONTFRAG);
}

/// A socket that is not bound yet.
absl::StatusOr<Fd> OpenSocket(const Kind& kind, uint16_t port) {
  Fd fd(socket(kind.is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return StepFailed(kind, port, "socket");
  if (kind.is_ipv6 && !TurnOn(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY)) {
    return StepFailed(kind, port, "IPV6_V6ONLY");
  }
  if (!ForbidFragments(fd.get(), kind.is_ipv6)) return StepFailed(kind, port, "MTU_DISCOVER");
  // The datapath copies to its own queue pairs in a group by itself.
  const int off = 0;
  if (!Set(fd.get(), kind.is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
           kind.is_ipv6 ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP, off)) {
    return StepFailed(kind, port, "MULTICAST_LOOP");
  }
  if (!kind.interface.empty() && !BindToInterface(fd.get(), kind.interface)) {
    return StepFailed(kind, port, "SO_BINDTODEVICE");
  }
  return fd;
}

bool TellAll(int fd, bool is_ipv6) {
  if (is_ipv6) {
    return TurnOn(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO) &&
           TurnOn(fd, IPPROTO_IPV6, IPV6_RECVTCLASS) && TurnOn(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT);
  }
  return TurnOn(fd, IPPROTO_IP, IP_PKTINFO) && TurnOn(fd, IPPROTO_IP, IP_RECVTOS) &&
         TurnOn(fd, IPPROTO_IP, IP_RECVTTL);
}

absl::StatusOr<Fd> OpenReceiver(const Kind& kind) {
  absl::StatusOr<Fd> fd = OpenSocket(kind, kRoceUdpPort);
  if (!fd.ok()) return fd;
  SetBuffer(fd->get(), SO_RCVBUFFORCE, SO_RCVBUF, kReceiveBufferBytes);
  if (!TellAll(fd->get(), kind.is_ipv6)) return StepFailed(kind, kRoceUdpPort, "PKTINFO");
  if (kind.queues > 1 && !TurnOn(fd->get(), SOL_SOCKET, SO_REUSEPORT)) {
    return StepFailed(kind, kRoceUdpPort, "SO_REUSEPORT");
  }
  // RoCE packets may have no UDP checksum, over IPv6 too: those of adapters have none.
  if (kind.is_ipv6 && !TurnOn(fd->get(), IPPROTO_UDP, UDP_NO_CHECK6_RX)) {
    return StepFailed(kind, kRoceUdpPort, "UDP_NO_CHECK6_RX");
  }
  // Kernels before 5.0 do not have it, and deliver packet by packet.
  TurnOn(fd->get(), IPPROTO_UDP, UDP_GRO);
  if (!BindUdp(fd->get(), kind.is_ipv6, kind.address, kRoceUdpPort))
    return StepFailed(kind, kRoceUdpPort, "bind");
  if (kind.queues > 1 && !ShareDatagrams(fd->get(), kind.queues)) {
    return StepFailed(kind, kRoceUdpPort, "SO_ATTACH_REUSEPORT_CBPF");
  }
  return fd;
}

absl::StatusOr<UdpFamily::FlowSocket> OpenFlowSocket(const Kind& kind, uint16_t index) {
  absl::StatusOr<Fd> fd = OpenSocket(kind, 0);
  if (!fd.ok()) return fd.status();
  SetBuffer(fd->get(), SO_SNDBUFFORCE, SO_SNDBUF, kSendBufferBytes);
  // No peer answers to a source port of RoCE: what arrives is dropped at once.
  if (!DropAll(fd->get())) return StepFailed(kind, 0, "SO_ATTACH_FILTER");
  static std::minstd_rand random(std::random_device{}());
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    constexpr uint16_t kRemainders = UdpFamily::kFlowSockets;
    const auto place = static_cast<uint16_t>(random() % ((0x10000 - kFirstFlowPort) / kRemainders));
    const auto port = static_cast<uint16_t>(kFirstFlowPort + place * kRemainders + index);
    if (BindUdp(fd->get(), kind.is_ipv6, kind.address, port))
      return UdpFamily::FlowSocket{*std::move(fd), port};
    if (errno != EADDRINUSE) return StepFailed(kind, port, "bind");
  }
  return StepFailed(kind, 0, "bind");
}

absl::Status OpenFamily(const Kind& kind, UdpFamily& family) {
  absl::StatusOr<Fd> receiver = OpenReceiver(kind);
  if (!receiver.ok()) return receiver.status();
  for (uint16_t i = 0; i < UdpFamily::kFlowSockets; ++i) {
    absl::StatusOr<UdpFamily::FlowSocket> flow = OpenFlowSocket(kind, i);
    if (!flow.ok()) return flow.status();
    family.flows[i] = *std::move(flow);
  }
  family.receiver = *std::move(receiver);
  return absl::OkStatus();
}

bool HasFamily(int family) { return static_cast<bool>(Fd(socket(family, SOCK_DGRAM, 0))); }

}  // namespace

absl::StatusOr<UdpSockets> OpenUdpSockets(const UdpPlace& place, uint16_t queues) {
  UdpSockets sockets;
  for (const bool is_ipv6 : {false, true}) {
    Kind kind{.is_ipv6 = is_ipv6, .interface = place.interface, .address = {}, .queues = queues};
    const auto found = std::ranges::find_if(
        place.addresses, [&](const Gid& gid) { return gid.is_ipv4() != is_ipv6; });
    if (found != place.addresses.end()) kind.address = *found;
    const bool is_wanted = place.interface.empty() ? kind.address.has_value()
                                                   : HasFamily(is_ipv6 ? AF_INET6 : AF_INET);
    if (!is_wanted) continue;
    absl::Status status = OpenFamily(kind, is_ipv6 ? sockets.ipv6 : sockets.ipv4);
    if (!status.ok()) return status;
  }
  return sockets;
}

namespace {

uint32_t MemoryInfo(const Fd& socket, uint32_t index) {
  std::array<uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t length = sizeof info;
  if (!socket || getsockopt(socket.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &length) != 0) {
    return 0;
  }
  return info[index];
}

}  // namespace

uint64_t SocketDrops(const Fd& socket) { return MemoryInfo(socket, SK_MEMINFO_DROPS); }

uint64_t SocketBufferBytes(const Fd& socket) { return MemoryInfo(socket, SK_MEMINFO_RCVBUF); }

// ---- silence ----

namespace {

/// The filter is attached before the UDP port is bound, so that nothing is ever queued. Several
/// NICs of uroced may have one interface, so its sockets have SO_REUSEPORT: the kernel lets sockets
/// of one user share a port. With SO_REUSEADDR, any user's socket could share it, and would receive
/// the packets.
bool Silence(int fd, bool is_ipv6, const std::string& interface) {
  if (!TurnOn(fd, SOL_SOCKET, SO_REUSEPORT)) return false;
  if (is_ipv6 && !TurnOn(fd, IPPROTO_IPV6, IPV6_V6ONLY)) return false;
  if (!DropAll(fd)) return false;
  // Without it the kernel cuts a superframe into packets before it drops each. Linux 5.0.
  TurnOn(fd, IPPROTO_UDP, UDP_GRO);
  return BindToInterface(fd, interface) && BindUdp(fd, is_ipv6, std::nullopt, kRoceUdpPort);
}

/// A user other than root and the daemon's own who has a UDP socket of RoCEv2's port. The tables do
/// not tell to which interface a socket is bound.
std::optional<uint32_t> OtherUserOnRocePort() {
  const std::string suffix = absl::StrCat(":", absl::Hex(kRoceUdpPort, absl::kZeroPad4));
  for (const char* table : {"/proc/self/net/udp", "/proc/self/net/udp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      // sl, local address, remote address, state, queues, timer, retransmissions, uid.
      std::istringstream words(absl::AsciiStrToLower(line));
      std::string word, address;
      uint32_t uid = 0;
      words >> word >> address >> word >> word >> word >> word >> word >> uid;
      if (!words || !absl::EndsWith(address, suffix)) continue;
      if (uid != 0 && uid != geteuid()) return uid;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<KernelMute> KernelMute::Open(const std::string& interface) {
  KernelMute mute;
  const std::string what =
      absl::StrCat("UDP port ", kRoceUdpPort, " on interface \"", interface, "\"");
  for (const bool is_ipv6 : {false, true}) {
    const int family = is_ipv6 ? AF_INET6 : AF_INET;
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && errno == EAFNOSUPPORT) continue;  // No IPv6 here: no answers over it.
    if (fd >= 0) mute.fds_.emplace_back(fd);
    if (fd >= 0 && Silence(fd, is_ipv6, interface)) continue;
    if (errno == EADDRNOTAVAIL) continue;
    if (errno != EADDRINUSE) {
      return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
    }
    if (const std::optional<uint32_t> uid = OtherUserOnRocePort()) {
      return absl::AlreadyExistsError(absl::StrCat(
          what, ": a program of user ", *uid,
          " has it and would receive the packets of this NIC (uroce doctor names it)"));
    }
    mute.is_shared_ = true;
  }
  return mute;
}

}  // namespace uroce::drivers
