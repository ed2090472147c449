// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/udp_sockets.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

constexpr int kReceiveBytes = 32 << 20;
constexpr int kSendBytes = 4 << 20;
constexpr uint16_t kFirstFlowPort = 0xc000;
constexpr int kPortAttempts = 64;

template <typename Value>
bool SetOption(int fd, int level, int option, const Value& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}
bool TurnOn(int fd, int level, int option) { return SetOption(fd, level, option, 1); }

/// What all sockets of a family have in common.
struct Kind {
  bool is_ipv6 = false;
  std::string interface;
  std::optional<Gid> address;
  bool is_shared = false;

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

/// The privileged option goes beyond net.core.*mem_max.
void SetBuffer(int fd, int privileged, int plain, int bytes) {
  if (!SetOption(fd, SOL_SOCKET, privileged, bytes)) SetOption(fd, SOL_SOCKET, plain, bytes);
}

/// With DF, an unconnected socket sends identification 0, and segments of a superframe their index:
/// the kernel gives identifications only to what may be fragmented.
bool ForbidFragments(int fd, bool is_ipv6) {
  if (!is_ipv6) return SetOption(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  return SetOption(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
         TurnOn(fd, IPPROTO_IPV6, IPV6_DONTFRAG);
}

bool BindTo(int fd, const Kind& kind, uint16_t port) {
  if (kind.is_ipv6) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_port = htons(port);
    if (kind.address) std::memcpy(&at.sin6_addr, kind.address->bytes.data(), 16);
    return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  if (kind.address) std::memcpy(&at.sin_addr, kind.address->bytes.data() + 12, 4);
  return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
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
  if (!SetOption(fd.get(), kind.is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                 kind.is_ipv6 ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP, off)) {
    return StepFailed(kind, port, "MULTICAST_LOOP");
  }
  const auto length = static_cast<socklen_t>(kind.interface.size());
  if (length != 0 &&
      setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, kind.interface.c_str(), length) != 0) {
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
  SetBuffer(fd->get(), SO_RCVBUFFORCE, SO_RCVBUF, kReceiveBytes);
  if (!TellAll(fd->get(), kind.is_ipv6)) return StepFailed(kind, kRoceUdpPort, "PKTINFO");
  if (kind.is_shared && !TurnOn(fd->get(), SOL_SOCKET, SO_REUSEPORT)) {
    return StepFailed(kind, kRoceUdpPort, "SO_REUSEPORT");
  }
  // RoCE packets may have no UDP checksum, over IPv6 too: those of adapters have none.
  if (kind.is_ipv6 && !TurnOn(fd->get(), IPPROTO_UDP, UDP_NO_CHECK6_RX)) {
    return StepFailed(kind, kRoceUdpPort, "UDP_NO_CHECK6_RX");
  }
  // Kernels before 5.0 do not have it, and deliver packet by packet.
  TurnOn(fd->get(), IPPROTO_UDP, UDP_GRO);
  if (!BindTo(fd->get(), kind, kRoceUdpPort)) return StepFailed(kind, kRoceUdpPort, "bind");
  return fd;
}

/// Nobody answers to a source port of RoCE: what arrives is dropped at once.
bool ReceiveNothing(int fd) {
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {.len = 1, .filter = &drop};
  return SetOption(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

absl::StatusOr<UdpFamily::FlowSocket> OpenFlowSocket(const Kind& kind, uint16_t index) {
  absl::StatusOr<Fd> fd = OpenSocket(kind, 0);
  if (!fd.ok()) return fd.status();
  SetBuffer(fd->get(), SO_SNDBUFFORCE, SO_SNDBUF, kSendBytes);
  if (!ReceiveNothing(fd->get())) return StepFailed(kind, 0, "SO_ATTACH_FILTER");
  static std::minstd_rand random(std::random_device{}());
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    constexpr uint16_t kRemainders = UdpFamily::kFlowSockets;
    const auto place = static_cast<uint16_t>(random() % ((0x10000 - kFirstFlowPort) / kRemainders));
    const auto port = static_cast<uint16_t>(kFirstFlowPort + place * kRemainders + index);
    if (BindTo(fd->get(), kind, port)) return UdpFamily::FlowSocket{*std::move(fd), port};
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

absl::StatusOr<UdpSockets> OpenUdpSockets(const UdpPlace& place, bool is_shared) {
  UdpSockets sockets;
  for (const bool is_ipv6 : {false, true}) {
    Kind kind{
        .is_ipv6 = is_ipv6, .interface = place.interface, .address = {}, .is_shared = is_shared};
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

}  // namespace uroce::drivers
