// SPDX-License-Identifier: Apache-2.0
#include "drivers/packet_socket/frame_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>

#include "drivers/packet_socket/frame_groups.h"
#include "drivers/packet_socket/vnet_header.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {
namespace {

/// The messages of sendmmsg for the groups of a burst.
class Messages {
 public:
  void Make(const FrameGroups& groups, rte_mbuf* const* frames) {
    used_ = 0;
    for (count_ = 0; count_ < groups.size(); ++count_) Add(groups, count_, frames);
  }
  /// How many messages were sent; -1 and errno: none.
  int Send(int socket) {
    int sent = 0;
    do {
      sent = sendmmsg(socket, messages_.data(), count_, MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }

 private:
  void Add(const FrameGroups& groups, uint16_t index, rte_mbuf* const* frames) {
    const FrameGroups::Group& group = groups[index];
    iovec* const begin = parts_.data() + used_;
    vnet_[index] = {};
    Append(&vnet_[index], sizeof(VnetHeader));
    if (group.builder->segments() == 1) {
      const std::span<const uint8_t> bytes = FrameBytes(*frames[group.first]);
      Append(bytes.data(), bytes.size());
    } else {
      AddSuperframe(groups, index, frames);
    }
    msghdr& message = messages_[index].msg_hdr;
    message.msg_iov = begin;
    message.msg_iovlen = static_cast<size_t>(parts_.data() + used_ - begin);
  }
  void AddSuperframe(const FrameGroups& groups, uint16_t index, rte_mbuf* const* frames) {
    const wire::SuperframeBuilder& builder = *groups[index].builder;
    const wire::UdpFrame& places = builder.places();
    vnet_[index] = {.flags = kNeedsChecksum,
                    .gso_type = kGsoUdpPackets,
                    .hdr_len = places.payload_offset,
                    .gso_size = builder.segment_bytes(),
                    .csum_start = places.udp_offset(),
                    .csum_offset = 6};
    Append(headers_[index].data(), builder.WriteHeaders(headers_[index].data()));
    for (uint8_t at = groups[index].first; at != FrameGroups::kNoFrame; at = groups.NextOf(at)) {
      const auto payload = FrameBytes(*frames[at]).subspan(places.payload_offset);
      Append(payload.data(), payload.size());
    }
  }
  void Append(const void* bytes, size_t length) {
    parts_[used_++] = {.iov_base = const_cast<void*>(bytes), .iov_len = length};
  }

  static constexpr size_t kMost = FrameWriter::kMostFrames;
  std::array<mmsghdr, kMost> messages_{};
  std::array<iovec, 3 * kMost> parts_{};
  std::array<VnetHeader, kMost> vnet_{};
  std::array<std::array<uint8_t, wire::kMaxUdpHeaderBytes>, kMost> headers_{};
  uint16_t count_ = 0;
  size_t used_ = 0;
};

}  // namespace

struct FrameWriter::Burst {
  FrameGroups groups;
  Messages messages;
};

FrameWriter::FrameWriter() : burst_(new Burst) {}
FrameWriter::~FrameWriter() = default;

FrameWriter::Sent FrameWriter::Send(int socket, rte_mbuf** frames, uint16_t count) {
  auto& [groups, messages] = *burst_;
  Sent result;
  while (result.frames < count) {
    rte_mbuf** const rest = frames + result.frames;
    const auto left = std::min<uint16_t>(kMostFrames, static_cast<uint16_t>(count - result.frames));
    groups.Make(rest, left, sends_superframes_);
    messages.Make(groups, rest);
    const int sent = messages.Send(socket);
    if (sent > 0) {
      result.frames += groups.Release(static_cast<uint16_t>(sent), rest, left);
      continue;
    }
    if (errno == EAGAIN || errno == ENOBUFS) {
      result.is_full = true;
      break;
    }
    const bool is_superframe = groups[0].builder->segments() > 1;
    if (is_superframe && (errno == EINVAL || errno == EOPNOTSUPP)) {
      sends_superframes_ = false;
      continue;
    }
    // The interface is down or gone, or the frame is too long for it.
    const uint16_t dropped = groups.Release(1, rest, left);
    result.frames += dropped;
    result.dropped += dropped;
  }
  return result;
}

}  // namespace uroce::drivers
