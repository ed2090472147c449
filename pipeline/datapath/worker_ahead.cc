// SPDX-License-Identifier: Apache-2.0
// An errand of the helper takes its time, most of it between threads: what the next packets of the
// same message need goes with it. What is foretold wrongly costs the work, and is done again.
#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/datapath/payload_walk.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::TxPacket;
using wire::OpcodeInfo;

// Packets that wait, looked at for one errand.
constexpr uint32_t kMaxLooks = 64;
// What tells one kind of message from another.
constexpr uint16_t kKindTraits =
    OpcodeInfo::kSend | OpcodeInfo::kWrite | OpcodeInfo::kRead | OpcodeInfo::kResponse;

bool PlacesMessage(Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceReceive || kind == Effect::Kind::kPlaceSend ||
         kind == Effect::Kind::kPlaceRemote;
}

MessagePlace Behind(MessagePlace place, uint32_t length_bytes) {
  return {place.key, place.position + length_bytes};
}

/// Adds the whole of a packet's payload to `job`, or nothing.
bool TakeWhole(const KeyTable& keys, PieceWalker walker, uint8_t* bytes, rte_mbuf* frame,
               CopyJob& job) {
  const uint32_t before = job.piece_count;
  TakeCopied(keys, walker, bytes, job);
  if (!walker.at_end()) {
    job.piece_count = before;
    return false;
  }
  job.along[job.along_count++] = {frame, job.piece_count};
  return true;
}

GatheredAhead& GatheredFor(ParkedWork& parked, const TxPacket& packet) {
  return packet.source == TxPacket::Source::kRemote ? parked.gathered_responses
                                                    : parked.gathered_requests;
}

PlacedAhead& PlacedFor(ParkedWork& parked, Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceSend ? parked.placed_responses : parked.placed_requests;
}

}  // namespace

void Worker::Impl::PlaceAhead(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  CopyJob& job = *parked.job;
  const Effect& effect = parked.effect;
  const OpcodeInfo* info = &wire::InfoOf(parked.effect_opcode);
  if (!PlacesMessage(effect.kind)) return;
  const uint16_t kind = info->traits & kKindTraits;
  MessagePlace place = Behind(PlaceOf(effect), LengthOf(effect));
  wire::Psn psn = parked.effect_psn + 1;
  uint32_t looks = 0;
  // Of a FIRST or MIDDLE more is to come.
  for (rte_mbuf* frame = parked.oldest;
       frame != nullptr && info->Has(OpcodeInfo::kFullPayload) && ++looks <= kMaxLooks &&
       job.along_count < CopyJob::kMaxAlong;
       frame = frame->next) {
    wire::Packet packet;
    wire::FrameView view;
    if (!DecodeAgain(*frame, packet, view)) return;
    const OpcodeInfo& its = wire::InfoOf(packet.header.opcode);
    if ((its.traits & kKindTraits) != kind || packet.header.psn != psn) continue;
    const auto length = static_cast<uint32_t>(packet.payload.size());
    uroce_sge entry;
    if (its.Has(OpcodeInfo::kFirst) || length == 0 ||
        !TakeWhole(keys, WalkEffect(qp, effect.kind, place, length, entry),
                   const_cast<uint8_t*>(packet.payload.data()), frame, job)) {
      return;
    }
    rte_mbuf_refcnt_update(frame, 1);
    info = &its;
    psn = psn + 1;
    place = Behind(place, length);
  }
}

bool Worker::Impl::IsPlaced(QueuePair& qp, const Effect& effect, wire::Psn psn) {
  PlacedAhead& placed = PlacedFor(qp.parked(), effect.kind);
  if (placed.packets == 0 || effect.kind != placed.kind || psn != placed.psn ||
      PlaceOf(effect) != placed.place) {
    return false;
  }
  --placed.packets;
  placed.psn = psn + 1;
  placed.place = Behind(placed.place, LengthOf(effect));
  return true;
}

void Worker::Impl::GatherAhead(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  CopyJob& job = *parked.job;
  const TxPacket& packet = parked.packet;
  MessagePlace place = Behind(PlaceOf(packet), packet.payload_bytes());
  uint32_t left = packet.following_bytes;
  const bool has_room = waiting_frames.HasRoom(qp.links().session->frames);
  while (left != 0 && job.along_count < CopyJob::kMaxAlong && has_room) {
    rte_mbuf* const frame = TakeFrame(*qp.links().port);
    if (frame == nullptr) return;
    const uint32_t length = std::min(left, packet.payload_bytes());
    uroce_sge entry;
    if (!TakeWhole(keys, WalkPacket(qp, packet, place, length, entry),
                   rte_pktmbuf_mtod(frame, uint8_t*), frame, job)) {
      stash[stash_count++] = frame;
      return;
    }
    frame->data_len = static_cast<uint16_t>(length);
    place = Behind(place, length);
    left -= length;
  }
}

bool Worker::Impl::TakeGathered(QueuePair& qp, const TxPacket& packet, uint8_t* payload,
                                uint32_t& crc) {
  GatheredAhead& gathered = GatheredFor(qp.parked(), packet);
  if (gathered.empty()) return false;
  rte_mbuf* const frame = gathered.frames[gathered.next];
  const uint32_t length = packet.payload_bytes();
  if (packet.header.psn != gathered.psn || PlaceOf(packet) != gathered.place ||
      frame->data_len != length) {
    DropGathered(qp, gathered);  // Something is sent again.
    return false;
  }
  crc = wire::CopyCrc32(crc, payload, rte_pktmbuf_mtod(frame, const uint8_t*), length);
  rte_pktmbuf_free(frame);
  WaitingFrames::Give(qp.links().session->frames);
  ++gathered.next;
  gathered.psn = gathered.psn + 1;
  gathered.place = Behind(gathered.place, length);
  return true;
}

void Worker::Impl::KeepAhead(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  CopyJob& job = *parked.job;
  uint32_t whole = 0;
  while (job.succeeded && whole < job.along_count &&
         job.along[whole].pieces_end <= job.moved_pieces) {
    ++whole;
  }
  if (qp.links().parked == ParkedKind::kEffect) {
    const Effect& effect = parked.effect;
    PlacedFor(parked, effect.kind) = {effect.kind, Behind(PlaceOf(effect), LengthOf(effect)),
                                      parked.effect_psn + 1, whole};
    job.DropAlong();
    return;
  }
  const TxPacket& packet = parked.packet;
  GatheredAhead& gathered = GatheredFor(parked, packet);
  DropGathered(qp, gathered);
  gathered.place = Behind(PlaceOf(packet), packet.payload_bytes());
  gathered.psn = packet.header.psn + 1;
  gathered.end = whole;
  WaitingFrames::Take(qp.links().session->frames, whole);
  for (uint32_t i = 0; i < whole; ++i) gathered.frames[i] = job.along[i].frame;
  for (uint32_t i = whole; i < job.along_count; ++i) rte_pktmbuf_free(job.along[i].frame);
  job.along_count = 0;
}

void Worker::Impl::DropGathered(QueuePair& qp, GatheredAhead& gathered) {
  WaitingFrames::Give(qp.links().session->frames, gathered.end - gathered.next);
  for (; !gathered.empty(); ++gathered.next) rte_pktmbuf_free(gathered.frames[gathered.next]);
  gathered.next = gathered.end = 0;
}

void Worker::Impl::ForgetAhead(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  parked.placed_requests = parked.placed_responses = {};
  DropGathered(qp, parked.gathered_requests);
  DropGathered(qp, parked.gathered_responses);
}

}  // namespace uroce::datapath
