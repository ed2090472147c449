// SPDX-License-Identifier: Apache-2.0
#include "drivers/udp_socket/datagram_reader.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "pipeline/wire/layout.h"

namespace uroce::drivers {
namespace {

// So few messages are read at a time while they are superframes: more would leave the cache before
// they are cut.
constexpr unsigned kFewMessages = 4;
constexpr uint16_t kIpv4Headers = 14 + 20 + 8;
constexpr uint16_t kIpv6Headers = 14 + 40 + 8;
constexpr uint16_t kDoNotFragmentBit = 0x4000;

/// What the kernel tells of a message beside its source.
struct Told {
  std::optional<in_pktinfo> ipv4;
  std::optional<in6_pktinfo> ipv6;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t segment_bytes = 0;  ///< 0: the message is one packet.
};

template <typename Value>
Value ValueOf(const cmsghdr* control) {
  Value value{};
  const size_t length = std::min(sizeof value, control->cmsg_len - CMSG_LEN(0));
  std::memcpy(&value, CMSG_DATA(control), length);
  return value;
}

Told ReadControls(msghdr& message) {
  Told told;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    const int type = at->cmsg_type;
    if (at->cmsg_level == IPPROTO_UDP && type == UDP_GRO) {
      told.segment_bytes = static_cast<uint16_t>(ValueOf<int>(at));
    } else if (at->cmsg_level == IPPROTO_IP) {
      if (type == IP_PKTINFO) told.ipv4 = ValueOf<in_pktinfo>(at);
      if (type == IP_TOS) told.traffic_class = ValueOf<uint8_t>(at);
      if (type == IP_TTL) told.hop_limit = static_cast<uint8_t>(ValueOf<int>(at));
    } else if (at->cmsg_level == IPPROTO_IPV6) {
      if (type == IPV6_PKTINFO) told.ipv6 = ValueOf<in6_pktinfo>(at);
      if (type == IPV6_TCLASS) told.traffic_class = static_cast<uint8_t>(ValueOf<int>(at));
      if (type == IPV6_HOPLIMIT) told.hop_limit = static_cast<uint8_t>(ValueOf<int>(at));
    }
  }
  return told;
}

template <typename Header>
uint8_t* Append(uint8_t* at, const Header& header) {
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

/// The destination MAC of a group: RFC 1112, 6.4, and RFC 2464, 7.
Mac GroupMac(const std::array<uint8_t, 4>& ip) {
  return {0x01, 0x00, 0x5e, static_cast<uint8_t>(ip[1] & 0x7f), ip[2], ip[3]};
}
Mac GroupMac(const std::array<uint8_t, 16>& ip) {
  return {0x33, 0x33, ip[12], ip[13], ip[14], ip[15]};
}

uint8_t* AppendUdp(uint8_t* at, in_port_t source_port) {
  return Append(at, wire::UdpHeader{.source_port = wire::Be<2>(ntohs(source_port)),
                                    .destination_port = wire::Be<2>(kRoceUdpPort),
                                    .length = wire::Be<2>(0),
                                    .checksum = wire::Be<2>(0)});
}

/// Writes headers without lengths and checksums, which the cutter completes.
void WriteIpv4Headers(uint8_t* at, const Mac& mac, const sockaddr_in& source, const Told& told) {
  wire::Ipv4Header ip{.version_ihl = 0x45,
                      .traffic_class = told.traffic_class,
                      .total_length = wire::Be<2>(0),
                      .identification = wire::Be<2>(0),
                      .fragment = wire::Be<2>(kDoNotFragmentBit),
                      .ttl = told.hop_limit,
                      .protocol = wire::kIpProtocolUdp,
                      .checksum = wire::Be<2>(0),
                      .source = {},
                      .destination = {}};
  std::memcpy(ip.source.data(), &source.sin_addr, ip.source.size());
  std::memcpy(ip.destination.data(), &told.ipv4->ipi_addr, ip.destination.size());
  const bool is_group = (ip.destination[0] & 0xf0) == 0xe0;
  at = Append(at, wire::EthernetHeader{.destination = is_group ? GroupMac(ip.destination) : mac,
                                       .source = kUdpPeerMac,
                                       .ether_type = wire::Be<2>(wire::kEtherTypeIpv4)});
  AppendUdp(Append(at, ip), source.sin_port);
}

void WriteIpv6Headers(uint8_t* at, const Mac& mac, const sockaddr_in6& source, const Told& told) {
  const uint32_t first = uint32_t{6} << 28 | uint32_t{told.traffic_class} << 20;
  wire::Ipv6Header ip{.version_class_flow = wire::Be<4>(first),
                      .payload_length = wire::Be<2>(0),
                      .next_header = wire::kIpProtocolUdp,
                      .hop_limit = told.hop_limit,
                      .source = {},
                      .destination = {}};
  std::memcpy(ip.source.data(), &source.sin6_addr, ip.source.size());
  std::memcpy(ip.destination.data(), &told.ipv6->ipi6_addr, ip.destination.size());
  const bool is_group = ip.destination[0] == 0xff;
  at = Append(at, wire::EthernetHeader{.destination = is_group ? GroupMac(ip.destination) : mac,
                                       .source = kUdpPeerMac,
                                       .ether_type = wire::Be<2>(wire::kEtherTypeIpv6)});
  AppendUdp(Append(at, ip), source.sin6_port);
}

}  // namespace

DatagramReader::DatagramReader() : buffers_(new std::array<Buffer, kMost>) {
  for (uint16_t i = 0; i < kMost; ++i) {
    parts_[i] = {.iov_base = (*buffers_)[i].data() + wire::kMaxUdpHeaderBytes,
                 .iov_len = wire::kMaxSuperframeBytes};
    msghdr& message = headers_[i].msg_hdr;
    message.msg_iov = &parts_[i];
    message.msg_iovlen = 1;
    message.msg_name = &sources_[i];
    message.msg_namelen = sizeof sources_[i];
    message.msg_control = controls_[i].data();
    message.msg_controllen = kControlBytes;
  }
}

// Most ports see one family alone for a long time: the other is asked when that has nothing.
bool DatagramReader::Read(const UdpSockets& sockets) {
  const bool was_ipv6 = is_ipv6_;
  for (const bool is_ipv6 : {was_ipv6, !was_ipv6}) {
    if (Read(is_ipv6 ? sockets.ipv6.receiver : sockets.ipv4.receiver, is_ipv6)) return true;
  }
  return false;
}

bool DatagramReader::Read(const Fd& socket, bool is_ipv6) {
  if (!socket) return false;
  // The kernel has set what it wrote to.
  for (uint16_t i = 0; i < read_; ++i) {
    headers_[i].msg_hdr.msg_controllen = kControlBytes;
    headers_[i].msg_hdr.msg_namelen = sizeof sources_[i];
  }
  const unsigned most = has_superframes_ ? kFewMessages : kMost;
  const int count = recvmmsg(socket.get(), headers_.data(), most, MSG_DONTWAIT, nullptr);
  at_ = read_ = 0;
  if (count <= 0) return false;
  read_ = static_cast<uint16_t>(count);
  is_ipv6_ = is_ipv6;
  has_superframes_ = false;
  return true;
}

bool DatagramReader::Begin() {
  msghdr& message = headers_[at_].msg_hdr;
  const uint32_t length = headers_[at_].msg_len;
  const Told told = ReadControls(message);
  cutter_.reset();
  segment_ = 0;
  is_begun_ = true;
  const bool is_told = is_ipv6_ ? told.ipv6.has_value() : told.ipv4.has_value();
  if (!is_told || length == 0 || (message.msg_flags & MSG_TRUNC) != 0) return false;
  places_ = {.payload_offset = is_ipv6_ ? kIpv6Headers : kIpv4Headers, .is_ipv6 = is_ipv6_};
  uint8_t* const start =
      (*buffers_)[at_].data() + wire::kMaxUdpHeaderBytes - places_.payload_offset;
  if (is_ipv6_) {
    WriteIpv6Headers(start, mac_, sources_[at_], told);
  } else {
    sockaddr_in source{};
    std::memcpy(&source, &sources_[at_], sizeof source);
    WriteIpv4Headers(start, mac_, source, told);
  }
  has_superframes_ |= told.segment_bytes != 0;
  const auto whole = static_cast<uint16_t>(std::min<uint32_t>(length, UINT16_MAX));
  cutter_ = wire::SuperframeCutter::Make({start, places_.payload_offset + length},
                                         told.segment_bytes != 0 ? told.segment_bytes : whole);
  return cutter_.has_value();
}

bool DatagramReader::Write(rte_mbuf& frame) {
  const uint32_t length = cutter_->FrameBytes(segment_);
  if (length > rte_pktmbuf_tailroom(&frame)) return false;
  auto* const to = rte_pktmbuf_mtod(&frame, uint8_t*);
  cutter_->Write(segment_, wire::Identifications::kSame, to);
  frame.data_len = static_cast<uint16_t>(length);
  frame.pkt_len = length;
  const auto found = identifications_.Store({to, length}, places_);
  if (found == IdentificationGuess::Found::kFitted) ++counts_.fitted;
  return true;
}

uint16_t DatagramReader::Receive(const UdpSockets& sockets, rte_mempool* pool, rte_mbuf** frames,
                                 uint16_t count) {
  uint16_t got = 0;
  bool may_read = true;
  while (got < count) {
    if (!has_frames()) {
      if (!may_read || !Read(sockets)) break;
      may_read = false;
    }
    if (!is_begun_ && !Begin()) {
      ++counts_.dropped;
      ++at_;
      is_begun_ = false;
      continue;
    }
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    if (frame == nullptr) break;  // What was read waits for mbufs.
    if (Write(*frame)) {
      frames[got++] = frame;
    } else {
      ++counts_.dropped;
      rte_pktmbuf_free(frame);
    }
    if (++segment_ >= cutter_->segments()) {
      ++at_;
      is_begun_ = false;
    }
  }
  return got;
}

DatagramReader::Counts DatagramReader::TakeCounts() { return std::exchange(counts_, {}); }

}  // namespace uroce::drivers
