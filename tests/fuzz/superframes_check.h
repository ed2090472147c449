// SPDX-License-Identifier: Apache-2.0
// What holds of the frames that a packet socket's reader makes of messages, whatever is in them.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "drivers/dpdk/eal.h"
#include "drivers/kernel/packet_frames.h"
#include "tests/fuzz/script_reader.h"

namespace uroce::fuzz {

/// A reader, and the end of its socket that messages are sent to.
class SuperframeCheck {
 public:
  /// A script has records: a VnetHeader, the length of the message, the length of its beginning (2
  /// bytes each), and the beginning; what follows it is a pattern. False: a frame is impossible,
  /// or one is missing.
  bool Holds(std::span<const uint8_t> script) {
    ScriptReader reader(script);
    while (!reader.AtEnd()) {
      drivers::VnetHeader vnet;
      vnet.flags = static_cast<uint8_t>(reader.Number(1));
      vnet.gso_type = static_cast<uint8_t>(reader.Number(1));
      vnet.hdr_len = static_cast<uint16_t>(reader.Number(2));
      vnet.gso_size = static_cast<uint16_t>(reader.Number(2));
      vnet.csum_start = static_cast<uint16_t>(reader.Number(2));
      vnet.csum_offset = static_cast<uint16_t>(reader.Number(2));
      const size_t length = reader.Number(2);
      const size_t begun = std::min<size_t>(reader.Number(2), length);
      std::vector<uint8_t> message = reader.Bytes(begun);
      while (message.size() < length) message.push_back(static_cast<uint8_t>(message.size() * 7));
      if (!MessageHolds(vnet, message)) return false;
    }
    return rte_mempool_avail_count(pool_) == kFrames;
  }

 private:
  static constexpr uint32_t kFrames = 256;
  static constexpr uint16_t kBurst = 64;
  static constexpr uint16_t kFrameBytes = 4096;

  static rte_mempool* MakePool() {
    if (!drivers::InitEal({.memory_mib = 64}).ok()) std::abort();
    const auto made = drivers::MakePool("superframes", kFrameBytes, kFrames);
    if (!made.ok()) std::abort();
    return *made;
  }

  bool MessageHolds(const drivers::VnetHeader& vnet, std::vector<uint8_t>& message) {
    drivers::VnetHeader header = vnet;
    iovec parts[] = {{&header, sizeof(header)}, {message.data(), message.size()}};
    msghdr sent{};
    sent.msg_iov = parts;
    sent.msg_iovlen = 2;
    if (sendmsg(peer_.get(), &sent, 0) < 0) return false;

    std::vector<std::vector<uint8_t>> frames;
    rte_mbuf* burst[kBurst];
    uint16_t count = 0;
    do {
      count = reader_.Receive(socket_, pool_, burst, kBurst);
      for (uint16_t i = 0; i < count; ++i) {
        const auto bytes = drivers::FrameBytes(*burst[i]);
        frames.emplace_back(bytes.begin(), bytes.end());
        if (burst[i]->pkt_len != burst[i]->data_len || burst[i]->nb_segs != 1) return false;
      }
      rte_pktmbuf_free_bulk(burst, count);
    } while (count != 0 || reader_.has_frames());
    const uint64_t dropped = reader_.TakeCounts().dropped;
    if (vnet.gso_type == drivers::kNoGso) return FrameHolds(vnet, message, frames, dropped);
    if (vnet.gso_type != drivers::kGsoUdpPackets) return frames.empty() && dropped == 1;
    return SuperframeHolds(vnet.gso_size, message, frames, dropped);
  }

  /// One frame, as it was sent but for a checksum that is to be completed.
  static bool FrameHolds(const drivers::VnetHeader& vnet, const std::vector<uint8_t>& message,
                         const std::vector<std::vector<uint8_t>>& frames, uint64_t dropped) {
    if (frames.size() + dropped != 1) return false;
    if (frames.empty()) {
      return message.size() < 12 || message.size() > kFrameBytes ||
             (vnet.flags & drivers::kNeedsChecksum) != 0;
    }
    std::vector<uint8_t> expected = message;
    if ((vnet.flags & drivers::kNeedsChecksum) != 0) {
      const size_t at = size_t{vnet.csum_start} + vnet.csum_offset;
      if (at + 2 > expected.size()) return false;
      std::copy_n(frames[0].begin() + static_cast<std::ptrdiff_t>(at), 2,
                  expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return frames[0] == expected;
  }

  /// UDP packets of `segment_bytes` and a rest, whose payload is that of the message, in its order.
  static bool SuperframeHolds(uint16_t segment_bytes, const std::vector<uint8_t>& message,
                              const std::vector<std::vector<uint8_t>>& frames, uint64_t dropped) {
    const std::optional<wire::UdpFrame> places = wire::FindUdp(message);
    if (!places || segment_bytes == 0 || message.size() <= places->payload_offset) {
      return frames.empty() && dropped == 1;
    }
    const size_t payload_bytes = message.size() - places->payload_offset;
    const size_t segments = (payload_bytes + segment_bytes - 1) / segment_bytes;
    if (frames.size() + dropped != segments) return false;
    if (dropped != 0) return places->payload_offset + size_t{segment_bytes} > kFrameBytes;
    auto payload = message.begin() + places->payload_offset;
    for (size_t i = 0; i < segments; ++i) {
      const std::vector<uint8_t>& frame = frames[i];
      const size_t begin = i * segment_bytes;
      const size_t bytes = std::min<size_t>(segment_bytes, payload_bytes - begin);
      if (frame.size() != places->payload_offset + bytes || !LengthsHold(frame)) return false;
      if (!std::equal(frame.begin() + places->payload_offset, frame.end(), payload)) return false;
      payload += static_cast<std::ptrdiff_t>(bytes);
    }
    return true;
  }

  static uint32_t Number(const std::vector<uint8_t>& frame, size_t at) {
    return static_cast<uint32_t>(frame[at]) << 8 | frame[at + 1];
  }
  /// The lengths of UDP and IP are those of the frame, and the checksum of IPv4 is right.
  static bool LengthsHold(const std::vector<uint8_t>& frame) {
    const std::optional<wire::UdpFrame> places = wire::FindUdp(frame);
    if (!places) return false;
    constexpr size_t kIp = wire::UdpFrame::kIpOffset;
    const uint32_t udp_bytes = static_cast<uint32_t>(frame.size()) - places->udp_offset();
    if (Number(frame, places->udp_offset() + 4u) != udp_bytes) return false;
    if (places->is_ipv6) return Number(frame, kIp + 4) == udp_bytes;
    uint32_t sum = 0;
    for (size_t at = kIp; at < kIp + 20; at += 2) sum += Number(frame, at);
    while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
    return sum == 0xffff && Number(frame, kIp + 2) == frame.size() - kIp;
  }

  static std::pair<Fd, Fd> MakeSockets() {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
    return {Fd(fds[0]), Fd(fds[1])};
  }

  std::pair<Fd, Fd> sockets_ = MakeSockets();
  Fd& socket_ = sockets_.first;
  Fd& peer_ = sockets_.second;
  rte_mempool* const pool_ = MakePool();
  drivers::PacketReader reader_;
};

/// Scripts of superframes and frames that a kernel delivers.
inline std::vector<std::vector<uint8_t>> GoodSuperframes() {
  // Ethernet, IPv4 and UDP headers, and Ethernet, IPv6 and UDP headers.
  const std::vector<uint8_t> ipv4 = {2,    0, 0,  0, 0, 2, 2,    0, 0,    0,    0, 1, 8,  0,
                                     0x45, 0, 0,  0, 0, 7, 0x40, 0, 64,   17,   0, 0, 10, 0,
                                     0,    1, 10, 0, 0, 2, 0xc0, 0, 0x12, 0xb7, 0, 0, 0,  0};
  std::vector<uint8_t> ipv6 = {2, 0,    0,    0,    0, 2, 2, 0, 0, 0,  0,
                               1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64};
  for (const uint8_t host : {uint8_t{1}, uint8_t{2}}) {
    ipv6.insert(ipv6.end(), {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host});
  }
  ipv6.insert(ipv6.end(), {0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0});
  std::vector<std::vector<uint8_t>> scripts;
  const auto add = [](std::vector<uint8_t>& script, const std::vector<uint8_t>& headers,
                      uint8_t gso_type, uint16_t gso_size, uint16_t payload) {
    const auto number = [&script](size_t value) {
      script.push_back(static_cast<uint8_t>(value));
      script.push_back(static_cast<uint8_t>(value >> 8));
    };
    script.insert(script.end(), {0, gso_type});
    number(headers.size());
    number(gso_size);
    number(0);
    number(0);
    number(headers.size() + payload);
    number(headers.size());
    script.insert(script.end(), headers.begin(), headers.end());
  };
  for (const std::vector<uint8_t>& headers : {ipv4, ipv6}) {
    std::vector<uint8_t>& script = scripts.emplace_back();
    add(script, headers, drivers::kGsoUdpPackets, 1040, 64000);
    add(script, headers, drivers::kNoGso, 0, 1000);
    add(script, headers, drivers::kGsoUdpPackets, 4112 - 200, 9000);
    add(script, headers, drivers::kGsoUdpPackets, 100, 1);
  }
  return scripts;
}

/// One check for all scripts of a process. False: see Holds.
inline bool SuperframesHold(std::span<const uint8_t> script) {
  static auto* const check = new SuperframeCheck;
  return check->Holds(script);
}

}  // namespace uroce::fuzz
