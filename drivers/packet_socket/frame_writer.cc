// SPDX-License-Identifier: Apache-2.0
#include "drivers/packet_socket/frame_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>

#include "drivers/packet_socket/vnet_header.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {
namespace {

using Builder = wire::SuperframeBuilder;

// A frame is compared with so many of the newest groups.
constexpr uint16_t kMostLooks = 8;
constexpr uint8_t kNoFrame = 0xff;

std::span<const uint8_t> BytesOf(const rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len};
}

/// The frames of a burst, in groups that leave as one superframe each. A flow's frames keep their
/// order: a frame that does not fit its flow's newest group begins another.
class Groups {
 public:
  struct Group {
    std::optional<Builder> builder;
    uint8_t first = 0;  ///< Index into the burst; NextOf leads from one frame to the next.
    uint8_t last = 0;
  };

  /// `joins`: groups may have more than one frame.
  void Make(rte_mbuf* const* frames, uint16_t count, bool joins) {
    size_ = 0;
    for (uint16_t i = 0; i < count; ++i) Place(*frames[i], static_cast<uint8_t>(i), joins);
  }
  uint16_t size() const { return size_; }
  const Group& operator[](uint16_t index) const { return groups_[index]; }
  uint8_t NextOf(uint8_t frame) const { return next_[frame]; }

 private:
  void Place(const rte_mbuf& frame, uint8_t index, bool joins) {
    next_[index] = kNoFrame;
    const uint16_t looks = joins ? std::min(size_, kMostLooks) : 0;
    for (uint16_t back = 1; back <= looks; ++back) {
      Group& group = groups_[size_ - back];
      const Builder::Added added = group.builder->Add(BytesOf(frame));
      if (added == Builder::Added::kOtherFlow) continue;
      if (added == Builder::Added::kDoesNotFit) break;
      next_[group.last] = index;
      group.last = index;
      return;
    }
    Group& group = groups_[size_++];
    group.builder.emplace(BytesOf(frame));
    group.first = group.last = index;
  }

  std::array<Group, FrameWriter::kMostFrames> groups_;
  std::array<uint8_t, FrameWriter::kMostFrames> next_{};
  uint16_t size_ = 0;
};

/// The messages of sendmmsg for the groups of a burst.
class Messages {
 public:
  void Make(const Groups& groups, rte_mbuf* const* frames) {
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
  void Add(const Groups& groups, uint16_t index, rte_mbuf* const* frames) {
    const Groups::Group& group = groups[index];
    iovec* const begin = parts_.data() + used_;
    vnet_[index] = {};
    Append(&vnet_[index], sizeof(VnetHeader));
    if (group.builder->segments() == 1) {
      const std::span<const uint8_t> bytes = BytesOf(*frames[group.first]);
      Append(bytes.data(), bytes.size());
    } else {
      AddSuperframe(groups, index, frames);
    }
    msghdr& message = messages_[index].msg_hdr;
    message.msg_iov = begin;
    message.msg_iovlen = static_cast<size_t>(parts_.data() + used_ - begin);
  }
  void AddSuperframe(const Groups& groups, uint16_t index, rte_mbuf* const* frames) {
    const Builder& builder = *groups[index].builder;
    const wire::UdpFrame& places = builder.places();
    vnet_[index] = {.flags = kNeedsChecksum,
                    .gso_type = kGsoUdpPackets,
                    .hdr_len = places.payload_offset,
                    .gso_size = builder.segment_bytes(),
                    .csum_start = places.udp_offset(),
                    .csum_offset = 6};
    Append(headers_[index].data(), builder.WriteHeaders(headers_[index].data()));
    for (uint8_t at = groups[index].first; at != kNoFrame; at = groups.NextOf(at)) {
      const auto payload = BytesOf(*frames[at]).subspan(places.payload_offset);
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

/// Frees the frames of the first `sent` groups, and moves the others, in the order of their groups,
/// behind them. Returns how many were freed.
uint16_t Release(const Groups& groups, uint16_t sent, rte_mbuf** frames, uint16_t count) {
  std::array<rte_mbuf*, FrameWriter::kMostFrames> ordered;
  uint16_t used = 0;
  uint16_t freed = count;
  for (uint16_t i = 0; i < groups.size(); ++i) {
    if (i == sent) freed = used;
    for (uint8_t at = groups[i].first; at != kNoFrame; at = groups.NextOf(at)) {
      ordered[used++] = frames[at];
    }
  }
  std::copy_n(ordered.begin(), count, frames);
  rte_pktmbuf_free_bulk(frames, freed);
  return freed;
}

}  // namespace

struct FrameWriter::Burst {
  Groups groups;
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
      result.frames += Release(groups, static_cast<uint16_t>(sent), rest, left);
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
    const uint16_t dropped = Release(groups, 1, rest, left);
    result.frames += dropped;
    result.dropped += dropped;
  }
  return result;
}

}  // namespace uroce::drivers
