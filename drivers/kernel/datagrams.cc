// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/datagrams.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {
namespace {

/// Of source address, source port and destination queue pair. Never 0.
uint32_t FlowKey(std::span<const uint8_t> frame, const wire::UdpFrame& places) {
  wire::Ipv4Header ip;
  wire::UdpHeader udp;
  wire::BthLayout bth;
  std::memcpy(&ip, frame.data() + wire::UdpFrame::kIpOffset, sizeof ip);
  std::memcpy(&udp, frame.data() + places.udp_offset(), sizeof udp);
  std::memcpy(&bth, frame.data() + places.payload_offset, sizeof bth);
  uint32_t source;
  std::memcpy(&source, ip.source.data(), sizeof source);
  uint64_t key = uint64_t{source} << 32 | uint64_t{bth.dest_qpn.value()} << 8;
  key ^= udp.source_port.value();
  key *= 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(key >> 32) | 1;
}

}  // namespace

IdentificationGuess::Found IdentificationGuess::Store(std::span<uint8_t> frame,
                                                      const wire::UdpFrame& places) {
  if (places.is_ipv6) return Found::kExpected;
  if (frame.size() < places.payload_offset + sizeof(wire::BthLayout)) return Found::kDamaged;
  const uint32_t key = FlowKey(frame, places);
  Flow& flow = flows_[(key >> 1) % kFlows];
  const bool is_known = flow.key == key;
  const auto next = static_cast<uint16_t>(flow.last + 1);
  wire::SetIdentification(frame, is_known ? next : 0);
  const std::optional<uint16_t> found = wire::FindIdentification(frame, places);
  if (!found) return Found::kDamaged;
  const bool is_expected = *found == 0 || (is_known && (*found == next || *found == flow.last));
  const bool is_segment = *found < kSegments;
  if (is_known && flow.segments == kSure && !is_segment && !is_expected) {
    flow.segments = 0;  // Another one may send by the flow now: the next packet is taken.
    return Found::kDamaged;
  }
  if (*found != (is_known ? next : 0)) wire::SetIdentification(frame, *found);
  const uint8_t before = is_known ? flow.segments : 0;
  const auto segments = static_cast<uint8_t>(is_segment ? std::min(before + 1, +kSure) : 0);
  flow = {.key = key, .last = *found, .segments = segments};
  return is_expected ? Found::kExpected : Found::kFitted;
}

void IdentificationGuess::Pass(std::span<const uint8_t> frame, const wire::UdpFrame& places,
                               uint32_t count) {
  if (places.is_ipv6) return;
  const uint32_t key = FlowKey(frame, places);
  Flow& flow = flows_[(key >> 1) % kFlows];
  flow.last = static_cast<uint16_t>(flow.last + count);
  const bool are_segments = flow.segments != 0 && flow.last < kSegments;
  flow.segments =
      static_cast<uint8_t>(are_segments ? std::min<uint32_t>(flow.segments + count, kSure) : 0);
}

namespace {

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
                                    .destination_port = wire::Be<2>(wire::kRoceUdpPort),
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

DatagramReader::DatagramReader() {
  source_bytes_ = sizeof(sockaddr_in6);
  for (uint16_t i = 0; i < kMost; ++i) {
    UseBuffer(i);
    msghdr& message = headers_[i].msg_hdr;
    message.msg_iov = &parts_[i];
    message.msg_iovlen = 1;
    message.msg_name = &sources_[i];
    message.msg_namelen = source_bytes_;
  }
}

void DatagramReader::UseBuffer(uint16_t index) {
  parts_[index] = {.iov_base = BufferOf(index) + wire::kMaxUdpHeaderBytes,
                   .iov_len = wire::kMaxSuperframeBytes};
}

// Most ports see one family alone for a long time: the other is asked now and then when that has
// nothing. A worker that is about to sleep is woken by either.
bool DatagramReader::Read(const UdpSockets& sockets) {
  for (const bool is_ipv6 : {is_ipv6_, !is_ipv6_}) {
    if (is_ipv6 != is_ipv6_ && !asks_all_ && ++reads_ % kReadsOfOne != 0) return false;
    const Fd& socket = is_ipv6 ? sockets.ipv6.receiver : sockets.ipv4.receiver;
    if (!socket || !ReadMessages(socket.get())) continue;
    is_ipv6_ = is_ipv6;
    return true;
  }
  asks_all_ = false;
  return false;
}

bool DatagramReader::Begin() {
  msghdr& message = headers_[at_].msg_hdr;
  const uint32_t length = headers_[at_].msg_len;
  const Told told = ReadControls(message);
  const bool is_told = is_ipv6_ ? told.ipv6.has_value() : told.ipv4.has_value();
  if (!is_told || length == 0 || (message.msg_flags & MSG_TRUNC) != 0) return false;
  places_ = {.payload_offset = is_ipv6_ ? kIpv6Headers : kIpv4Headers, .is_ipv6 = is_ipv6_};
  uint8_t* const start = BufferOf(at_) + wire::kMaxUdpHeaderBytes - places_.payload_offset;
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
  if (cutter_ && cutter_->segments() > 1) CheckSuperframe({start, places_.payload_offset + length});
  return cutter_.has_value();
}

// The first packet's frame lies in place, and its identification is one that the others follow.
void DatagramReader::CheckSuperframe(std::span<uint8_t> superframe) {
  superframe_ = superframe;
  const std::span<uint8_t> first = superframe.first(cutter_->FrameBytes(0));
  cutter_->WriteHeaders(0, wire::Identifications::kSame, first.data());
  const uint16_t segment_bytes = cutter_->segment_bytes();
  const auto found = guess_.Store(first, places_);
  if (found == IdentificationGuess::Found::kDamaged) return;
  if (found == IdentificationGuess::Found::kFitted) ++counts_.fitted;
  const auto numbered = wire::SuperframeCutter::Make(superframe, segment_bytes);
  identifications_ = wire::FindIdentifications(superframe, *numbered);
  if (!identifications_) return;
  cutter_ = numbered;
  if (*identifications_ == wire::Identifications::kRising) {
    guess_.Pass(first, places_, cutter_->segments() - 1);
  }
}

bool DatagramReader::Write(rte_mbuf& frame) {
  const uint32_t length = cutter_->FrameBytes(segment_);
  if (length > rte_pktmbuf_tailroom(&frame)) return false;
  auto* const to = rte_pktmbuf_mtod(&frame, uint8_t*);
  frame.data_len = static_cast<uint16_t>(length);
  frame.pkt_len = length;
  if (identifications_) {
    cutter_->Write(segment_, *identifications_, to);
    return true;
  }
  cutter_->Write(segment_, wire::Identifications::kSame, to);
  const auto found = guess_.Store({to, length}, places_);
  if (found == IdentificationGuess::Found::kFitted) ++counts_.fitted;
  return true;
}

namespace {

constexpr uint16_t kIpOffset = wire::UdpFrame::kIpOffset;

template <typename Header>
Header HeaderAt(const uint8_t* at) {
  Header header;
  std::memcpy(&header, at, sizeof header);
  return header;
}

/// The control messages of one message, in a buffer that has room for all.
class ControlWriter {
 public:
  ControlWriter(uint8_t* buffer, size_t size) : buffer_(buffer) { std::memset(buffer, 0, size); }

  template <typename Value>
  void Put(int level, int type, const Value& value) {
    cmsghdr header{};
    header.cmsg_len = CMSG_LEN(sizeof value);
    header.cmsg_level = level;
    header.cmsg_type = type;
    std::memcpy(buffer_ + used_, &header, sizeof header);
    std::memcpy(buffer_ + used_ + CMSG_LEN(0), &value, sizeof value);
    used_ += CMSG_SPACE(sizeof value);
  }
  size_t used() const { return used_; }

 private:
  uint8_t* buffer_;
  size_t used_ = 0;
};

/// The messages of sendmmsg for the groups of a burst. Each is sent by the socket of its flow.
class DatagramMessages {
 public:
  void Make(const UdpSockets& sockets, const FrameGroups& groups, rte_mbuf* const* frames) {
    used_ = 0;
    for (count_ = 0; count_ < groups.size(); ++count_) {
      fds_[count_] = -1;
      if (groups[count_].builder->has_places()) Add(sockets, groups, count_, frames);
    }
  }
  /// How many messages were sent from the first one on; -1 and errno: none.
  int Send() {
    uint16_t end = 1;
    while (end < count_ && fds_[end] == fds_[0]) ++end;
    if (fds_[0] < 0) {
      errno = EPROTONOSUPPORT;
      return -1;
    }
    int sent = 0;
    do {
      sent = sendmmsg(fds_[0], messages_.data(), end, MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }

 private:
  static constexpr size_t kMost = FrameGroups::kMostFrames;
  static constexpr size_t kControlBytes =
      CMSG_SPACE(sizeof(in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t));
  union Address {
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  };

  void Add(const UdpSockets& sockets, const FrameGroups& groups, uint16_t index,
           rte_mbuf* const* frames) {
    const FrameGroups::Group& group = groups[index];
    const wire::UdpFrame& places = group.builder->places();
    const std::span<const uint8_t> first = FrameBytes(*frames[group.first]);
    const UdpFamily& family = places.is_ipv6 ? sockets.ipv6 : sockets.ipv4;
    const auto udp = HeaderAt<wire::UdpHeader>(first.data() + places.udp_offset());
    const UdpFamily::FlowSocket& flow = family.FlowOf(udp.source_port.value());
    fds_[index] = flow.fd.get();
    AddHeaders(first.data(), places, index);
    if (group.builder->segments() > 1) {
      Segment(group.builder->segment_bytes(), index);
    }
    AddPayloads(groups, index, frames, flow.port);
  }

  void AddPayloads(const FrameGroups& groups, uint16_t index, rte_mbuf* const* frames,
                   uint16_t port) {
    iovec* const begin = parts_.data() + used_;
    const wire::UdpFrame& places = groups[index].builder->places();
    uint16_t identification = 0;
    for (uint8_t at = groups[index].first; at != FrameGroups::kNoFrame; at = groups.NextOf(at)) {
      const std::span<uint8_t> frame = FrameBytes(*frames[at]);
      if (mark_.IsSet(*frames[at])) {
        wire::RenumberSegments(frame, places, SuperframeMark::SegmentBytesOf(*frames[at]), port);
        ++identification;  // Of a frame behind it: one that has several packets is the only one.
      } else {
        wire::Renumber(frame, places, port, identification++);
      }
      const std::span<uint8_t> payload = frame.subspan(places.payload_offset);
      parts_[used_++] = {.iov_base = payload.data(), .iov_len = payload.size()};
    }
    msghdr& message = messages_[index].msg_hdr;
    message.msg_iov = begin;
    message.msg_iovlen = static_cast<size_t>(parts_.data() + used_ - begin);
  }

  void AddHeaders(const uint8_t* frame, const wire::UdpFrame& places, uint16_t index) {
    msghdr& message = messages_[index].msg_hdr;
    Address& address = addresses_[index];
    ControlWriter control(controls_[index].data(), kControlBytes);
    message.msg_name = &address;
    if (places.is_ipv6) {
      const auto ip = HeaderAt<wire::Ipv6Header>(frame + kIpOffset);
      address.ipv6 = {};
      address.ipv6.sin6_family = AF_INET6;
      address.ipv6.sin6_port = htons(wire::kRoceUdpPort);
      std::memcpy(&address.ipv6.sin6_addr, ip.destination.data(), ip.destination.size());
      message.msg_namelen = sizeof address.ipv6;
      in6_pktinfo source{};
      std::memcpy(&source.ipi6_addr, ip.source.data(), ip.source.size());
      control.Put(IPPROTO_IPV6, IPV6_PKTINFO, source);
      const int traffic_class = static_cast<int>(ip.version_class_flow.value() >> 20 & 0xff);
      control.Put(IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
      control.Put(IPPROTO_IPV6, IPV6_HOPLIMIT, int{ip.hop_limit});
    } else {
      const auto ip = HeaderAt<wire::Ipv4Header>(frame + kIpOffset);
      address.ipv4 = {};
      address.ipv4.sin_family = AF_INET;
      address.ipv4.sin_port = htons(wire::kRoceUdpPort);
      std::memcpy(&address.ipv4.sin_addr, ip.destination.data(), ip.destination.size());
      message.msg_namelen = sizeof address.ipv4;
      in_pktinfo source{};
      std::memcpy(&source.ipi_spec_dst, ip.source.data(), ip.source.size());
      control.Put(IPPROTO_IP, IP_PKTINFO, source);
      control.Put(IPPROTO_IP, IP_TOS, int{ip.traffic_class});
      control.Put(IPPROTO_IP, IP_TTL, std::max(1, int{ip.ttl}));
    }
    message.msg_control = controls_[index].data();
    message.msg_controllen = control.used();
  }

  void Segment(uint16_t segment_bytes, uint16_t index) {
    msghdr& message = messages_[index].msg_hdr;
    ControlWriter control(controls_[index].data() + message.msg_controllen,
                          CMSG_SPACE(sizeof segment_bytes));
    control.Put(IPPROTO_UDP, UDP_SEGMENT, segment_bytes);
    message.msg_controllen += control.used();
  }

  const SuperframeMark mark_;
  std::array<mmsghdr, kMost> messages_{};
  std::array<int, kMost> fds_{};
  std::array<iovec, kMost> parts_{};
  std::array<Address, kMost> addresses_{};
  alignas(cmsghdr) std::array<std::array<uint8_t, kControlBytes>, kMost> controls_{};
  uint16_t count_ = 0;
  size_t used_ = 0;
};

}  // namespace

struct DatagramWriter::Burst {
  SuperframeSender sender;
  DatagramMessages messages;
};

DatagramWriter::DatagramWriter() : burst_(new Burst) {}
DatagramWriter::~DatagramWriter() = default;

bool DatagramWriter::sends_superframes() const { return burst_->sender.sends_superframes(); }

SentFrames DatagramWriter::Send(const UdpSockets& sockets, rte_mbuf** frames, uint16_t count,
                                bool goes_on) {
  auto& messages = burst_->messages;
  // Frames are dropped that have no route, that are too long for their path, or not for a UDP
  // socket.
  return burst_->sender.Send(
      frames, count, goes_on,
      [&](const FrameGroups& groups, rte_mbuf* const* rest) {
        messages.Make(sockets, groups, rest);
        return messages.Send();
      },
      [](int error) {
        using enum SuperframeSender::Refusal;
        if (error == EIO) return kEver;  // No checksum offload.
        // EINVAL: also a path whose MTU has become too small.
        return error == EINVAL || error == EMSGSIZE ? kNow : kNone;
      });
}

}  // namespace uroce::drivers
