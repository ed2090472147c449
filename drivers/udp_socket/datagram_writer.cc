// SPDX-License-Identifier: Apache-2.0
#include "drivers/udp_socket/datagram_writer.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "pipeline/wire/icrc_change.h"
#include "pipeline/wire/layout.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {
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
      wire::Renumber(frame, places, port, identification++);
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
      address.ipv6.sin6_port = htons(kRoceUdpPort);
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
      address.ipv4.sin_port = htons(kRoceUdpPort);
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
  FrameGroups groups;
  DatagramMessages messages;
};

DatagramWriter::DatagramWriter() : burst_(new Burst) {}
DatagramWriter::~DatagramWriter() = default;

DatagramWriter::Sent DatagramWriter::Send(const UdpSockets& sockets, rte_mbuf** frames,
                                          uint16_t count) {
  auto& [groups, messages] = *burst_;
  Sent result;
  bool joins = sends_superframes_;
  while (result.frames < count) {
    rte_mbuf** const rest = frames + result.frames;
    const auto left =
        static_cast<uint16_t>(std::min<int>(FrameGroups::kMostFrames, count - result.frames));
    groups.Make(rest, left, joins);
    messages.Make(sockets, groups, rest);
    const int sent = messages.Send();
    if (sent > 0) {
      result.frames += groups.Release(static_cast<uint16_t>(sent), rest, left);
      continue;
    }
    if (errno == EAGAIN || errno == ENOBUFS) {
      result.is_full = true;
      break;
    }
    // EIO: no checksum offload. EINVAL: also a path whose MTU has become too small.
    if (groups[0].builder->segments() > 1 &&
        (errno == EINVAL || errno == EIO || errno == EMSGSIZE)) {
      joins = false;
      sends_superframes_ &= errno != EIO;
      continue;
    }
    // No route, or the frame is too long for its path, or not for a UDP socket.
    const uint16_t dropped = groups.Release(1, rest, left);
    result.frames += dropped;
    result.dropped += dropped;
  }
  return result;
}

}  // namespace uroce::drivers
