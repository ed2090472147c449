// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/packet_frames.h"

#include <linux/if_packet.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kMacBytes = 12;
constexpr uint32_t kTagBytes = 4;
constexpr size_t kFrameBytes = 14 + wire::kMaxSuperframeBytes;

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

PacketReader::PacketReader() {
  for (uint16_t i = 0; i < kMost; ++i) {
    parts_[i][0] = {.iov_base = &vnet_[i], .iov_len = sizeof(VnetHeader)};
    UseBuffer(i);
    headers_[i].msg_hdr.msg_iov = parts_[i].data();
    headers_[i].msg_hdr.msg_iovlen = parts_[i].size();
  }
}

void PacketReader::UseBuffer(uint16_t index) {
  parts_[index][1] = {.iov_base = BufferOf(index), .iov_len = kFrameBytes};
}

bool PacketReader::Read(const Fd& socket) {
  if (!ReadMessages(socket.get())) return false;
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

bool PacketReader::Begin() {
  const VnetHeader& vnet = vnet_[at_];
  if (bytes().size() < kMacBytes) return false;
  if (vnet.gso_type == kNoGso) {
    const bool is_partial = (vnet.flags & kNeedsChecksum) != 0;
    return !is_partial || wire::CompleteChecksum(bytes(), vnet.csum_start, vnet.csum_offset);
  }
  if (vnet.gso_type != kGsoUdpPackets) return false;
  cutter_ = wire::SuperframeCutter::Make(bytes(), vnet.gso_size);
  if (!cutter_) return false;
  superframe_ = bytes();
  const auto found = wire::FindIdentifications(superframe_, *cutter_);
  likely_ = found ? *found : IdentificationsOf(*cutter_);
  if (!messages_[at_].is_tagged) identifications_ = found;
  return true;
}

bool PacketReader::Write(rte_mbuf& frame) {
  const Message& message = messages_[at_];
  const uint32_t length =
      cutter_ ? cutter_->FrameBytes(segment_) : static_cast<uint32_t>(bytes().size());
  const uint32_t whole = message.is_tagged ? length + kTagBytes : length;
  if (whole > rte_pktmbuf_tailroom(&frame)) return false;
  auto* const to = rte_pktmbuf_mtod(&frame, uint8_t*);
  if (cutter_) {
    cutter_->Write(segment_, likely_, to);
  } else {
    std::copy_n(bytes().data(), length, to);
  }
  if (message.is_tagged) InsertTag(to, length, message.vlan_tci);
  frame.data_len = static_cast<uint16_t>(whole);
  frame.pkt_len = whole;
  return true;
}

namespace {

/// The messages of sendmmsg for the groups of a burst.
class PacketMessages {
 public:
  /// `uses_blocks`: see PacketWriter::set_uses_blocks.
  void Make(const FrameGroups& groups, rte_mbuf* const* frames, bool uses_blocks) {
    used_ = 0;
    for (count_ = 0; count_ < groups.size(); ++count_) {
      Add(groups, count_, frames);
      if (uses_blocks) UseBlock(count_);
    }
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
  void UseBlock(uint16_t index) {
    const msghdr& message = messages_[index].msg_hdr;
    size_t bytes = 0;
    for (size_t i = 1; i < message.msg_iovlen; ++i) bytes += message.msg_iov[i].iov_len;
    vnet_[index].hdr_len =
        static_cast<uint16_t>(std::min<size_t>(bytes, PacketWriter::kMostInBlock));
  }
  void Append(const void* bytes, size_t length) {
    parts_[used_++] = {.iov_base = const_cast<void*>(bytes), .iov_len = length};
  }

  static constexpr size_t kMost = FrameGroups::kMostFrames;
  std::array<mmsghdr, kMost> messages_{};
  std::array<iovec, 3 * kMost> parts_{};
  std::array<VnetHeader, kMost> vnet_{};
  std::array<std::array<uint8_t, wire::kMaxUdpHeaderBytes>, kMost> headers_{};
  uint16_t count_ = 0;
  size_t used_ = 0;
};

}  // namespace

struct PacketWriter::Burst {
  SuperframeSender sender;
  PacketMessages messages;
};

PacketWriter::PacketWriter() : burst_(new Burst) {}
PacketWriter::~PacketWriter() = default;

bool PacketWriter::sends_superframes() const { return burst_->sender.sends_superframes(); }

SentFrames PacketWriter::Send(const Fd& socket, rte_mbuf** frames, uint16_t count, bool goes_on) {
  auto& messages = burst_->messages;
  const bool uses_blocks = uses_blocks_.load(std::memory_order_relaxed);
  // Frames are dropped when the interface is down or gone, or they are too long for it.
  return burst_->sender.Send(
      frames, count, goes_on,
      [&](const FrameGroups& groups, rte_mbuf* const* rest) {
        messages.Make(groups, rest, uses_blocks);
        return messages.Send(socket.get());
      },
      [](int error) {
        using enum SuperframeSender::Refusal;
        return error == EINVAL || error == EOPNOTSUPP ? kEver : kNone;
      });
}

}  // namespace uroce::drivers
