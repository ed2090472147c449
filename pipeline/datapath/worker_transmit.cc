// SPDX-License-Identifier: Apache-2.0
// From the transports to the ports: acknowledgements first, then bytes in fair turns.
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "drivers/frame_destination.h"
#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/payload_walk.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

using transport::TxPacket;

uint8_t* StartOf(rte_mbuf* frame) { return rte_pktmbuf_mtod(frame, uint8_t*); }

// Those whose turns come next: each step needs what the one before it fetched a turn ago.
void PrefetchAfter(Flow& flow) {
  Flow& next = *flow.next;
  if (&next == &flow) return;
  Flow& second = *next.next;
  rte_prefetch0(second.next);
  QueuePair::OfFlow(second).Prefetch();
  QueuePair::OfFlow(next).PrefetchSend();
}

}  // namespace

bool Worker::Impl::Transmit() {
  bool any = false;
  // Acknowledgements first: a sender elsewhere waits for them. All else waits for its turn.
  for (QueuePair* qp : received) {
    qp->links().received = false;
    if (!Acknowledge(*qp)) continue;
    any = true;
    Touch(*qp);
  }
  received.clear();
  for (const auto& port : ports) {
    any |= ServePort(*port);
    port->Flush(now);
  }
  handover.WakeTakers();
  return any;
}

bool Worker::Impl::Acknowledge(QueuePair& qp) {
  if (!qp.core().HasAcknowledgement() || qp.links().port->LookForRoom() == 0) return false;
  uint32_t bytes = 0;
  const Sent sent = SendNext(qp, bytes);
  if (sent == Sent::kNothing || sent == Sent::kHeld || sent == Sent::kNoFrame) return false;
  ChargeFor(qp, bytes);
  return true;
}

// Each worker that sends here has the same share, and who needs less leaves the rest to the others.
bool Worker::Impl::ServePort(DevicePort& port) {
  bool any = false;
  if (port.host_has_frames()) any |= ServeLink(port, *port.device().host_link, Qpn());
  if (port.gsi_has_frames()) any |= ServeLink(port, *port.device().gsi_link, wire::kGsiQpn);
  if (port.has_relays()) {
    any |= port.TakeRelayed(std::max(port.LookForRoom() / handover.workers(), 1u));
  }
  if (!port.sessions().empty()) any |= ServeQueuePairs(port);
  if (port.has_relays()) any |= port.TakeRelayed(kBurst);
  return any;
}

bool Worker::Impl::ServeQueuePairs(DevicePort& port) {
  DeficitRoundRobin& schedule = port.sessions();
  uint32_t room = port.LookForRoom();
  const Flow* last = nullptr;
  bool any = false;
  while (room != 0) {
    auto* session = static_cast<SessionFlow*>(schedule.Current());
    if (session == nullptr) break;
    Flow* flow = session->queue_pairs.Current();
    if (flow == nullptr) {
      schedule.Remove(*session);
      continue;
    }
    QueuePair& qp = QueuePair::OfFlow(*flow);
    if (flow != last) PrefetchAfter(*flow);
    last = flow;
    uint32_t bytes = 0;
    const Sent sent = SendNext(qp, bytes);
    if (sent == Sent::kNoFrame) break;
    if (sent == Sent::kHeld) {
      StopSending(qp);
      continue;
    }
    any = true;
    Touch(qp);
    if (sent == Sent::kNothing) StopSending(qp);
    if (sent != Sent::kPacket) continue;
    --room;
    DeficitRoundRobin::Charge(*flow, bytes);
    DeficitRoundRobin::Charge(*session, bytes);
  }
  return any;
}

bool Worker::Impl::ServeLink(DevicePort& port, FrameLink& link, Qpn destination) {
  const Mac& own = port.device().mac;
  uint32_t room = std::min(port.LookForRoom(), FrameLink::kFramesPerTurn);
  bool any = false;
  for (; room != 0; --room) {
    const std::span<const uint8_t> bytes = link.outbound().Front();
    if (bytes.empty()) break;
    rte_mbuf* const frame = TakeFrame(port);
    if (frame == nullptr) break;
    any = true;
    if (bytes.size() <= rte_pktmbuf_tailroom(frame)) {
      std::memcpy(StartOf(frame), bytes.data(), bytes.size());
      frame->data_len = static_cast<uint16_t>(bytes.size());
      frame->pkt_len = frame->data_len;
      drivers::SetDestination(*frame, destination);
      const bool to_self = std::equal(own.begin(), own.end(), bytes.begin());
      port.Queue(frame, to_self, {.qpn = destination.value()});
      Count(link.counters().sent);
    } else {
      stash[stash_count++] = frame;
      Count(link.counters().too_long);
    }
    link.outbound().Pop();
  }
  return any;
}

void Worker::Impl::ChargeFor(QueuePair& qp, uint32_t bytes) {
  DeficitRoundRobin::Charge(qp.links().flow, bytes);
  DeficitRoundRobin::Charge(*qp.links().session_flow, bytes);
}

void Worker::Impl::StopSending(QueuePair& qp) {
  SessionFlow& session = *qp.links().session_flow;
  session.queue_pairs.Remove(qp.links().flow);
  if (session.queue_pairs.empty()) qp.links().port->sessions().Remove(session);
}

Worker::Impl::Sent Worker::Impl::SendNext(QueuePair& qp, uint32_t& bytes) {
  if (qp.is_parked()) return Sent::kNothing;
  if (IsHeld(qp)) return Sent::kHeld;
  // Before the packet: one that was polled must go out.
  rte_mbuf* const frame = TakeFrame(*qp.links().port);
  if (frame == nullptr) return Sent::kNoFrame;
  TxPacket packet;
  Sent sent = Sent::kNothing;
  if (qp.core().PollPacket(now, packet)) {
    qp.PrefetchSend();  // For the packet after this one.
    sent = Build(qp, packet, frame);
  }
  if (sent == Sent::kNothing || sent == Sent::kFailed) stash[stash_count++] = frame;
  if (sent == Sent::kPacket) bytes = frame->data_len;
  return sent;
}

Worker::Impl::Sent Worker::Impl::Build(QueuePair& qp, const TxPacket& packet, rte_mbuf* frame) {
  uint8_t* const start = StartOf(frame);
  const uint32_t length = packet.payload_bytes();
  const wire::HeaderTemplate* const path =
      qp.core().is_datagram() ? TemplateOfDatagram(qp, packet) : &qp.header_template();
  if (path == nullptr) {
    qp.core().OnGatherFailed(packet, now);
    return Sent::kFailed;
  }
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(*path, packet.header, length, identification++, start);
  uint8_t* const payload = start + headers.length_bytes;
  frame->data_len = static_cast<uint16_t>(headers.length_bytes);
  uint32_t crc = headers.crc_state;
  if (length == 0) {
    FinishFrame(qp, packet, frame, crc);
    return Sent::kPacket;
  }
  if (packet.source == TxPacket::Source::kOwn) [[unlikely]] {
    crc = wire::CopyCrc32(crc, payload, packet.own.data(), length);
    FinishFrame(qp, packet, frame, crc);
    return Sent::kPacket;
  }
  const transport::LocalRange& local = packet.local;
  if (packet.source == TxPacket::Source::kSend && qp.send_lists().is_inline(local.slot)) {
    const uint8_t* source = qp.send_lists().InlineBytes(local.slot).data() + local.offset_bytes;
    crc = wire::CopyCrc32(crc, payload, source, length);
    FinishFrame(qp, packet, frame, crc);
    return Sent::kPacket;
  }
  Transfer transfer;
  if (packet.source == TxPacket::Source::kRemote && qp.is_target() &&
      !qp.SelectShared(packet.remote.xrc_srqn)) [[unlikely]] {
    qp.core().OnGatherFailed(packet, now);
    return Sent::kFailed;
  }
  transfer.walker = WalkPacket(qp, packet, PlaceOf(packet), length, transfer.remote);
  transfer.bytes = payload;
  switch (GatherWithCrc(keys, transfer.walker, transfer.bytes, crc)) {
    case MoveResult::kDone:
      FinishFrame(qp, packet, frame, crc);
      return Sent::kPacket;
    case MoveResult::kDenied:
      qp.core().OnGatherFailed(packet, now);
      return Sent::kFailed;
    case MoveResult::kCopied:
      break;
  }
  crc = headers.crc_state;  // What the pass over mapped memory made of it means nothing.
  if (TakeGathered(qp, packet, payload, crc)) {
    FinishFrame(qp, packet, frame, crc);
    return Sent::kPacket;
  }
  qp.links().parked = ParkedKind::kGather;
  ParkedWork& parked = qp.parked();
  parked.transfer.Continue(transfer);
  parked.packet = packet;
  parked.crc_before_payload = headers.crc_state;
  parked.job->frame = frame;
  SubmitCopy(qp, CopyJob::Kind::kRead);
  return Sent::kParked;
}

void Worker::Impl::FinishGather(QueuePair& qp, rte_mbuf* frame) {
  const ParkedWork& parked = qp.parked();
  const std::span<const uint8_t> payload{StartOf(frame) + frame->data_len,
                                         parked.packet.payload_bytes()};
  const uint32_t crc = wire::Crc32Update(parked.crc_before_payload, payload);
  FinishFrame(qp, parked.packet, frame, crc);
  ChargeFor(qp, frame->data_len);
}

void Worker::Impl::FinishFrame(QueuePair& qp, const TxPacket& packet, rte_mbuf* frame,
                               uint32_t crc) {
  const uint32_t payload_bytes = packet.payload_bytes();
  uint8_t* const trailer = StartOf(frame) + frame->data_len + payload_bytes;
  const size_t trailer_bytes = wire::WriteTrailer(trailer, payload_bytes, crc);
  frame->data_len = static_cast<uint16_t>(frame->data_len + payload_bytes + trailer_bytes);
  frame->pkt_len = frame->data_len;
  drivers::SetDestination(*frame, qp.path().remote_qpn);
  ++qp.traffic().sent_packets;
  qp.traffic().sent_bytes += frame->data_len;
  const uroce_capture_note sent = IsRecorded(qp) ? NoteOf(packet, qp.qpn()) : uroce_capture_note{};
  if (qp.flight() != nullptr) AddToFlight(qp, UROCE_CAPTURE_OUTBOUND, frame, sent);
  bool to_self = qp.links().to_self;
  if (!qp.core().is_reliable()) to_self = FinishUnreliable(qp, packet, frame);
  qp.links().port->Queue(frame, to_self, sent);
}

rte_mbuf* Worker::Impl::TakeFrame(DevicePort& port) {
  if (stash_count == 0) {
    if (rte_pktmbuf_alloc_bulk(config.pool, stash.data(), kBurst) != 0) {
      Count(port.counters().no_buffer);
      return nullptr;
    }
    stash_count = kBurst;
  }
  return stash[--stash_count];
}

}  // namespace uroce::datapath
