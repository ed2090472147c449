// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/direct_delivery.h"

#include <array>
#include <cstring>

#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/receiver.h"
#include "pipeline/wire/encode.h"

namespace uroce::datapath {
namespace {

using transport::TxPacket;

/// Whether a frame of this turn from `qp` to `peer` would arrive in this turn.
bool IsJoined(const QueuePair& qp, const QueuePair& peer) {
  if (qp.peer() == PeerPlace::kSameDevice) return &qp.port() == &peer.port();
  return qp.port().IsJoinedTo(peer.port());
}

/// Whether `peer` takes frames with the addresses of `qp`: see Admission and Receiver::Steer.
bool IsAddressed(const QueuePair& qp, const QueuePair& peer) {
  const Path& to = qp.path();
  const Path& from = peer.path();
  return to.destination_mac == peer.port().device().mac && IsSame(to.source, from.destination) &&
         IsSame(to.destination, from.source) && ((to.vlan_tci ^ from.vlan_tci) & kVlanIdMask) == 0;
}

uint32_t HeaderBytes(const QueuePair& qp, const TxPacket& packet) {
  return static_cast<uint32_t>(qp.header_template().bth_offset()) +
         wire::InfoOf(packet.header.opcode).header_bytes;
}

}  // namespace

QueuePair* DirectDelivery::FindPeer(const QueuePair& qp) const {
  if (!qp.is_peer_in_daemon() || !qp.core().is_reliable() || !qp.port().leaves_icrc_out() ||
      context_.recorder.IsRecorded(qp) || context_.copies.stalls().measures()) {
    return nullptr;
  }
  QueuePair* const peer = context_.queue_pairs.Find(qp.path().remote_qpn);
  const bool takes = peer != nullptr && peer != &qp && !context_.recorder.IsRecorded(*peer) &&
                     peer->core().service() == qp.core().service() && IsJoined(qp, *peer) &&
                     IsAddressed(qp, *peer);
  return takes ? peer : nullptr;
}

bool DirectDelivery::HasFramesOnTheWay(QueuePair& qp) {
  if (!qp.has_sent_frames()) [[likely]]
    return false;
  if (!qp.port().IsWayEmpty(qp.peer() == PeerPlace::kSameDevice)) return true;
  qp.set_has_sent_frames(false);
  return false;
}

QueuePair* DirectDelivery::PeerOf(QueuePair& qp) {
  if (!is_open_) return nullptr;
  QueuePair::DirectPeer& direct = qp.direct_peer();
  if (direct.turn != context_.time.number()) {
    direct = {.queue_pair = FindPeer(qp), .turn = context_.time.number()};
  }
  QueuePair* const peer = direct.queue_pair;
  if (peer == nullptr || !TakesPackets(peer->state()) || HasFramesOnTheWay(qp)) return nullptr;
  return peer;
}

void DirectDelivery::Refer(TxPacket& packet, const uint8_t* bytes, rte_mbuf* frame,
                           uint32_t header_bytes) const {
  packet.payload = {bytes, packet.payload_bytes()};
  references_.Set(*frame, header_bytes, packet.payload);
}

// A file of the program's own may be mapped at two places in the daemon, where a copy from one to
// the other would not see that they overlap.
DirectDelivery::Result DirectDelivery::Fetch(QueuePair& qp, TxPacket& packet, rte_mbuf* frame,
                                             uint32_t header_bytes, rte_mbuf*& prefetched) {
  using Source = TxPacket::Source;
  const uint32_t length = packet.payload_bytes();
  packet.payload = {};
  if (length == 0) return Result::kDelivered;
  uint8_t* const room = rte_pktmbuf_mtod_offset(frame, uint8_t*, header_bytes);
  if (packet.payload_source == Source::kOwn) [[unlikely]] {
    std::memcpy(room, packet.own.data(), length);
    packet.payload = {room, length};
    return Result::kDelivered;
  }
  const SendLists& lists = qp.works().send_lists();
  if (packet.payload_source == Source::kSend && lists.is_inline(packet.local.slot)) {
    const uint8_t* const bytes = lists.InlineBytes(packet.local.slot).data();
    Refer(packet, bytes + packet.local.offset_bytes, frame, header_bytes);
    return Result::kDelivered;
  }
  if (packet.payload_source == Source::kRemote && qp.receive_source().is_target() &&
      !qp.receive_source().Select(packet.remote.xrc_srqn)) [[unlikely]] {
    return Result::kDenied;
  }
  Transfer transfer;
  transfer.walker = WalkPacket(qp, packet, PlaceOf(packet), length, transfer.remote);
  Piece piece;
  if (!transfer.walker.Look(context_.keys, piece)) return Result::kDenied;
  if (piece.mapped != nullptr && !piece.is_own_file && piece.length_bytes == length) [[likely]] {
    Refer(packet, piece.mapped, frame, header_bytes);
    return Result::kDelivered;
  }
  packet.payload = {room, length};
  transfer.bytes = room;
  const MoveResult result = context_.copies.stalls().Watch(
      transfer.walker, [&] { return Gather(context_.keys, transfer.walker, transfer.bytes); });
  if (result == MoveResult::kCopied) {
    prefetched = CopyEngine::TakePrefetched(qp, packet);
    if (prefetched == nullptr) return Result::kNeedsFrame;
    Refer(packet, rte_pktmbuf_mtod(prefetched, const uint8_t*), frame, header_bytes);
    return Result::kDelivered;
  }
  return result == MoveResult::kDone ? Result::kDelivered : Result::kDenied;
}

void DirectDelivery::CountSent(QueuePair& qp, const QueuePair& peer, const TxPacket& packet,
                               const rte_mbuf* frame) {
  const uint32_t bytes = frame->data_len;
  ++qp.traffic().sent_packets;
  qp.traffic().sent_bytes += bytes;
  context_.congestion.OnSent(qp, packet, bytes);
  static_cast<void>(context_.recorder.OnSent(qp, packet, frame));
  qp.port().CountSent(bytes, qp.peer() == PeerPlace::kSameDevice);
  peer.port().CountReceived(bytes);
}

DirectDelivery::Result DirectDelivery::Deliver(QueuePair& qp, QueuePair& peer, TxPacket& packet,
                                               rte_mbuf* frame) {
  const uint32_t header_bytes = HeaderBytes(qp, packet);
  rte_mbuf* prefetched = nullptr;
  const Result fetched = Fetch(qp, packet, frame, header_bytes, prefetched);
  if (fetched != Result::kDelivered) return fetched;
  packet.header.dest_qpn = peer.qpn();
  const auto length = static_cast<uint32_t>(packet.payload.size());
  frame->data_len = static_cast<uint16_t>(header_bytes + length + wire::TrailerBytes(length));
  frame->pkt_len = frame->data_len;
  const auto identification = static_cast<uint16_t>(qp.traffic().sent_packets);
  CountSent(qp, peer, packet, frame);
  context_.recorder.Begin(packet);
  is_open_ = false;
  const bool kept = context_.executor.Receive(peer, packet, {}, frame);
  is_open_ = true;
  if (kept && prefetched != nullptr) referred_.push_back(prefetched);
  if (!kept) rte_pktmbuf_free(prefetched);
  if (kept) [[unlikely]] {
    WriteHeaders(qp, packet, identification, frame);
    return Result::kKept;
  }
  references_.Clear(*frame);
  return Result::kDelivered;
}

void DirectDelivery::FreeReferred() {
  for (rte_mbuf* const frame : referred_) rte_pktmbuf_free(frame);
  referred_.clear();
}

// Through a buffer: EncodeHeaders may write beyond the headers, where the payload is.
void DirectDelivery::WriteHeaders(const QueuePair& qp, const TxPacket& packet,
                                  uint16_t identification, rte_mbuf* frame) const {
  const auto length = static_cast<uint32_t>(packet.payload.size());
  std::array<uint8_t, wire::kMaxHeaderBytes> bytes;
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(qp.header_template(), packet.header, length, identification, bytes.data(),
                          wire::HeaderCrc::kLeftOut);
  uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
  std::memcpy(start, bytes.data(), headers.length_bytes);
  pending_.Set(*frame);
  if (references_.IsSet(*frame)) return;  // PayloadReference::Fill writes what is behind it, too.
  wire::WriteEmptyTrailer(start + headers.length_bytes + length, length);
}

}  // namespace uroce::datapath
