// SPDX-License-Identifier: Apache-2.0
// Sends and receives frames by a packet socket, those of a flow as superframes.
#include "drivers/kernel/packet_frames.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "drivers/kernel/frame_groups.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kMacBytes = 12;
constexpr uint32_t kTagBytes = 4;
// So few messages are read at a time while they are superframes: more would leave the cache before
// they are cut.
constexpr unsigned kFewMessages = 4;

/// Puts the VLAN tag back that the kernel has taken out of the frame.
void InsertTag(uint8_t* frame, uint32_t length, uint16_t tci) {
  std::memmove(frame + kMacBytes + kTagBytes, frame + kMacBytes, length - kMacBytes);
  const uint8_t tag[kTagBytes] = {0x81, 0x00, static_cast<uint8_t>(tci >> 8),
                                  static_cast<uint8_t>(tci)};
  std::memcpy(frame + kMacBytes, tag, sizeof tag);
}

bool HasRightIcrc(std::span<const uint8_t> frame) {
  wire::Packet packet;
  wire::FrameView view;
  return wire::Decode(frame, packet, view) == wire::DecodeResult::kOk &&
         wire::IcrcIsRight(frame, view);
}

/// GRO joins packets whose identifications rise, and those whose identifications are the same. The
/// ICRC covers the identification: the second packet's tells.
wire::Identifications IdentificationsOf(const wire::SuperframeCutter& cutter) {
  using enum wire::Identifications;
  if (cutter.segments() < 2) return kRising;
  std::array<uint8_t, 14 + 9000> frame;
  const uint32_t length = cutter.FrameBytes(1);
  if (length > frame.size()) return kRising;
  for (const auto identifications : {kRising, kSame}) {
    cutter.Write(1, identifications, frame.data());
    if (HasRightIcrc({frame.data(), length})) return identifications;
  }
  return kRising;
}

}  // namespace

FrameReader::FrameReader() : buffers_(new std::array<Buffer, kMost>) {
  for (uint16_t i = 0; i < kMost; ++i) {
    parts_[i] = {{{.iov_base = &vnet_[i], .iov_len = sizeof(VnetHeader)},
                  {.iov_base = (*buffers_)[i].data(), .iov_len = kBytes}}};
    msghdr& message = headers_[i].msg_hdr;
    message.msg_iov = parts_[i].data();
    message.msg_iovlen = parts_[i].size();
    message.msg_control = &controls_[i];
    message.msg_controllen = sizeof(Control);
  }
}

bool FrameReader::Read(int socket) {
  // The kernel has set what it wrote to.
  for (uint16_t i = 0; i < read_; ++i) headers_[i].msg_hdr.msg_controllen = sizeof(Control);
  const unsigned most = has_superframes_ ? kFewMessages : kMost;
  const int count = recvmmsg(socket, headers_.data(), most, MSG_DONTWAIT, nullptr);
  at_ = read_ = 0;
  if (count <= 0) return false;
  read_ = static_cast<uint16_t>(count);
  has_superframes_ = false;
  for (uint16_t i = 0; i < read_; ++i) {
    const bool is_whole = (headers_[i].msg_hdr.msg_flags & MSG_TRUNC) == 0;
    const uint32_t length = headers_[i].msg_len;
    messages_[i] = {};
    if (is_whole && length > sizeof(VnetHeader)) {
      messages_[i].length_bytes = length - static_cast<uint32_t>(sizeof(VnetHeader));
    }
    has_superframes_ |= vnet_[i].gso_type != kNoGso;
    const cmsghdr* const control = CMSG_FIRSTHDR(&headers_[i].msg_hdr);
    if (control == nullptr || control->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux;
    std::memcpy(&aux, CMSG_DATA(control), sizeof aux);
    messages_[i].is_tagged = (aux.tp_status & TP_STATUS_VLAN_VALID) != 0;
    messages_[i].vlan_tci = aux.tp_vlan_tci;
  }
  return true;
}

bool FrameReader::Begin() {
  const VnetHeader& vnet = vnet_[at_];
  cutter_.reset();
  segment_ = 0;
  is_begun_ = true;
  if (bytes().size() < kMacBytes) return false;
  if (vnet.gso_type == kNoGso) {
    const bool is_partial = (vnet.flags & kNeedsChecksum) != 0;
    return !is_partial || wire::CompleteChecksum(bytes(), vnet.csum_start, vnet.csum_offset);
  }
  if (vnet.gso_type != kGsoUdpPackets) return false;
  cutter_ = wire::SuperframeCutter::Make(bytes(), vnet.gso_size);
  if (!cutter_) return false;
  identifications_ = IdentificationsOf(*cutter_);
  return true;
}

bool FrameReader::Write(rte_mbuf& frame) {
  const Message& message = messages_[at_];
  const uint32_t length =
      cutter_ ? cutter_->FrameBytes(segment_) : static_cast<uint32_t>(bytes().size());
  const uint32_t whole = message.is_tagged ? length + kTagBytes : length;
  if (whole > rte_pktmbuf_tailroom(&frame)) return false;
  auto* const to = rte_pktmbuf_mtod(&frame, uint8_t*);
  if (cutter_) {
    cutter_->Write(segment_, identifications_, to);
  } else {
    std::copy_n(bytes().data(), length, to);
  }
  if (message.is_tagged) InsertTag(to, length, message.vlan_tci);
  frame.data_len = static_cast<uint16_t>(whole);
  frame.pkt_len = whole;
  return true;
}

uint16_t FrameReader::Receive(int socket, rte_mempool* pool, rte_mbuf** frames, uint16_t count) {
  uint16_t got = 0;
  bool may_read = true;
  while (got < count) {
    if (!has_frames()) {
      if (!may_read || !Read(socket)) break;
      may_read = false;
    }
    if (!is_begun_ && !Begin()) {
      ++dropped_;
      ++at_;
      is_begun_ = false;
      continue;
    }
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    if (frame == nullptr) break;  // What was read waits for mbufs.
    if (Write(*frame)) {
      frames[got++] = frame;
    } else {
      ++dropped_;
      rte_pktmbuf_free(frame);
    }
    if (++segment_ >= (cutter_ ? cutter_->segments() : 1)) {
      ++at_;
      is_begun_ = false;
    }
  }
  return got;
}

uint64_t FrameReader::TakeDropped() { return std::exchange(dropped_, 0); }

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
