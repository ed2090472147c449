// SPDX-License-Identifier: Apache-2.0
#include "drivers/packet_socket/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

}  // namespace uroce::drivers
