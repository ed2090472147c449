// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/transmitter.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/port/frames.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

using transport::TxPacket;

uint8_t* StartOf(rte_mbuf* frame) { return rte_pktmbuf_mtod(frame, uint8_t*); }

// Prefetches for the next turns: each step needs what the one before it prefetched a turn ago.
void PrefetchAfter(Flow& flow) {
  Flow& next = *flow.next;
  if (&next == &flow) return;
  Flow& second = *next.next;
  rte_prefetch0(second.next);
  QueuePair::OfFlow(second).Prefetch();
  QueuePair::OfFlow(next).works().PrefetchSend();
}

// The headers of the path that a datagram takes. Null: the queue pair may not use the address
// handle.
const wire::HeaderTemplate* TemplateOfDatagram(const QueuePair& qp, const TxPacket& packet) {
  const AddressVector* const vector = qp.config().session->FindAddress(packet.path);
  // The protection domain belongs to one program and one device.
  if (vector == nullptr || vector->pd() != qp.config().pd) return nullptr;
  return &vector->header_template();
}

// The headers of the path of `packet`. Null: see TemplateOfDatagram.
const wire::HeaderTemplate* TemplateFor(const QueuePair& qp, const TxPacket& packet) {
  return qp.core().is_datagram() ? TemplateOfDatagram(qp, packet) : &qp.header_template();
}

// Whether the payload of `packet` lies in registered memory.
bool IsInMemory(const QueuePair& qp, const TxPacket& packet) {
  using Source = TxPacket::Source;
  if (packet.payload_bytes() == 0) return false;
  if (packet.payload_source == Source::kRemote) return !qp.receive_source().is_target();
  return packet.payload_source == Source::kSend &&
         !qp.works().send_lists().is_inline(packet.local.slot);
}

// Whether others are likely to join the packet in a superframe: those of its message, or other
// messages of its size. The FIRST packet of a WRITE is longer than the MIDDLE packets, so only one
// of them could join it. The kernel takes a packet alone at less cost, so FIRST leaves alone unless
// the packets behind it would need one more superframe. `headers_bytes`: before the UDP payload.
bool MayBegin(const TxPacket& packet, size_t headers_bytes) {
  constexpr uint32_t kLongBytes = 512;
  const uint32_t payload_bytes = packet.payload_bytes();
  const wire::OpcodeInfo& info = wire::InfoOf(packet.header.opcode);
  if (!info.Has(wire::OpcodeInfo::kFullPayload)) return payload_bytes >= kLongBytes;
  if (!info.Has(wire::OpcodeInfo::kFirst) || !info.Has(wire::OpcodeInfo::kReth)) return true;
  const uint32_t udp_bytes = wire::InfoOf(wire::Opcode::kWriteMiddle).header_bytes + payload_bytes +
                             static_cast<uint32_t>(wire::TrailerBytes(payload_bytes));
  const uint32_t middles = (packet.header.reth.length_bytes - 1) / payload_bytes - 1;
  return middles % OpenSuperframes::MostIn(headers_bytes, udp_bytes) == 0;
}

// Those of a superframe's packets that the kernel numbers from 0 on change all alike then
// (wire::RenumberSegments).
uint16_t FirstIdentification(uint16_t next) {
  return static_cast<uint16_t>((next + wire::kMaxSegments - 1) & ~(wire::kMaxSegments - 1));
}

}  // namespace

bool Transmitter::Transmit() {
  bool any = false;
  // Acknowledgements go first: a remote sender waits for them. Other packets wait for their turn.
  const auto acknowledge = [&](QueuePair& qp) {
    if (!Acknowledge(qp)) return;
    any = true;
    context_.ready.Touch(qp);
  };
  context_.direct.Open();
  context_.ready.TakeReceived(acknowledge);
  for (const auto& port : context_.ports) any |= ServePort(*port);
  context_.ready.TakeReceived(acknowledge);  // What was delivered directly.
  context_.direct.Close();
  for (const auto& port : context_.ports) port->Flush(context_.time.now());
  context_.cross_worker.WakeTakers();
  return any;
}

bool Transmitter::Acknowledge(QueuePair& qp) {
  if (!qp.core().HasAcknowledgement() || qp.port().LookForRoom() == 0) return false;
  uint32_t bytes = 0;
  const Sent sent = SendNext(qp, bytes);
  if (sent == Sent::kNothing || sent == Sent::kHeld || sent == Sent::kNoFrame) return false;
  Charge(qp, bytes);
  return true;
}

// Each worker that sends by this port has the same share, and leaves what it does not need.
bool Transmitter::ServePort(DevicePort& port) {
  bool any = false;
  port.LookForSuperframes();
  if (port.host_has_frames()) any |= ServeLink(port, *port.device().host_link, Qpn());
  if (port.gsi_has_frames()) any |= ServeLink(port, *port.device().gsi_link, wire::kGsiQpn);
  if (port.has_relays()) {
    any |= port.TakeRelayed(std::max(port.LookForRoom() / context_.cross_worker.workers(), 1u));
  }
  port.Resume(context_.time.now());
  if (port.reads().has_line()) [[unlikely]]
    GrantReads(port, context_.time.now());
  if (!port.sessions().empty()) any |= ServeQueuePairs(port);
  if (port.has_relays()) any |= port.TakeRelayed(kBurst);
  return any;
}

bool Transmitter::ServeQueuePairs(DevicePort& port) {
  DeficitRoundRobin& schedule = port.sessions();
  uint32_t room = port.LookForRoom();
  const Flow* last = nullptr;
  bool any = false;
  const Nanos now = context_.time.now();
  while (room != 0 && !port.HasFullTurn() && port.MaySend(now)) {
    auto* session = static_cast<SessionFlow*>(schedule.Current());
    if (session == nullptr) break;
    if (session->share.is_limited() && !session->share.MaySend(now)) [[unlikely]] {
      port.Pause(*session);
      continue;
    }
    Flow* flow = session->queue_pairs.Current();
    if (flow == nullptr) {
      schedule.Remove(*session);
      continue;
    }
    QueuePair& qp = QueuePair::OfFlow(*flow);
    if (flow != last) PrefetchAfter(*flow);
    last = flow;
    uint32_t bytes = 0;
    const Sent sent = SendNext(qp, bytes, /*joins_run=*/true);
    if (sent == Sent::kNoFrame) break;
    if (sent == Sent::kHeld) {
      StopSending(qp);
      continue;
    }
    any = true;
    context_.ready.Touch(qp);
    if (sent == Sent::kNothing) StopSending(qp);
    if (bytes == 0) continue;
    if (sent == Sent::kPacket) --room;
    Charge(qp, bytes);
    KeepTurn(qp);
  }
  port.superframes().set_goes_on(room == 0 || port.HasFullTurn());
  return any;
}

bool Transmitter::ServeLink(DevicePort& port, FrameLink& link, Qpn destination) {
  const Mac& own = port.device().mac;
  uint32_t room = std::min(port.LookForRoom(), FrameLink::kFramesPerTurn);
  bool any = false;
  for (; room != 0; --room) {
    const std::span<const uint8_t> bytes = link.outbound().Front();
    if (bytes.empty()) break;
    rte_mbuf* const frame = context_.stash.Take(port.counters());
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
      context_.stash.Return(frame);
      Count(link.counters().too_long);
    }
    link.outbound().Pop();
  }
  return any;
}

void Transmitter::Hold(QueuePair& qp) {
  context_.held.Add(qp);
  qp.core().OnHeld(context_.time.now());
  context_.timers.File(qp);
}

void Transmitter::Pace(QueuePair& qp) {
  context_.timers.FileAt(qp, context_.congestion.ResumeAt(qp));
}

void Transmitter::SendOne(QueuePair& qp) {
  if (!qp.core().HasPacket() || qp.port().LookForRoom() == 0) return;
  uint32_t bytes = 0;
  SendNext(qp, bytes);
  if (bytes != 0) Charge(qp, bytes);
}

Transmitter::Sent Transmitter::SendNext(QueuePair& qp, uint32_t& bytes, bool joins_run) {
  if (qp.is_waiting()) return Sent::kNothing;
  if (IsHeld(qp)) return Sent::kHeld;
  if (context_.congestion.MustWait(qp)) [[unlikely]] {
    Pace(qp);
    return Sent::kHeld;
  }
  // The frame is taken before the packet is polled: a polled packet must be sent.
  rte_mbuf* const frame = context_.stash.Take(qp.port().counters());
  if (frame == nullptr) return Sent::kNoFrame;
  TxPacket packet;
  Sent sent = Sent::kNothing;
  if (qp.core().PollPacket(context_.time.now(), packet)) {
    qp.works().PrefetchSend();  // For the packet after this one.
    QueuePair* const peer = context_.direct.PeerOf(qp);
    sent = peer != nullptr ? Deliver(qp, *peer, packet, frame) : Build(qp, packet, frame);
  }
  if (sent == Sent::kNothing || sent == Sent::kFailed) context_.stash.Return(frame);
  if (sent == Sent::kPacket || sent == Sent::kJoined) bytes = frame->data_len;
  if (sent == Sent::kJoined && joins_run) bytes += JoinRun(qp, packet, bytes);
  return sent;
}

Transmitter::Sent Transmitter::Deliver(QueuePair& qp, QueuePair& peer, TxPacket& packet,
                                       rte_mbuf* frame) {
  switch (context_.direct.Deliver(qp, peer, packet, frame)) {
    case DirectDelivery::Result::kDelivered:
      context_.stash.Return(frame);
      break;
    case DirectDelivery::Result::kKept:
      break;
    case DirectDelivery::Result::kDenied:
      return FailGather(qp, packet);
    case DirectDelivery::Result::kNeedsFrame:
      return Build(qp, packet, frame);
  }
  return Sent::kPacket;
}

MoveResult Transmitter::GatherCopied(QueuePair& qp, const TxPacket& packet, uint8_t* payload,
                                     Transfer& transfer, RunningIcrc& icrc) {
  if (rte_mbuf* const prefetched = CopyEngine::TakePrefetched(qp, packet)) {
    icrc.Copy(payload, rte_pktmbuf_mtod(prefetched, const uint8_t*), packet.payload_bytes());
    rte_pktmbuf_free(prefetched);
    return MoveResult::kDone;
  }
  const MoveResult result = context_.copies.GatherNow(qp, packet, transfer);
  if (result == MoveResult::kDone) icrc.Pass({payload, packet.payload_bytes()});
  return result;
}

Transmitter::Sent Transmitter::GatherPayload(QueuePair& qp, const TxPacket& packet,
                                             const RunningIcrc& icrc_of_headers, rte_mbuf* frame) {
  const uint32_t length = packet.payload_bytes();
  uint8_t* const payload = StartOf(frame) + frame->data_len;
  RunningIcrc icrc = icrc_of_headers;
  Transfer transfer;
  if (packet.payload_source == TxPacket::Source::kRemote && qp.receive_source().is_target() &&
      !qp.receive_source().Select(packet.remote.xrc_srqn)) [[unlikely]] {
    return FailGather(qp, packet);
  }
  transfer.walker = WalkPacket(qp, packet, PlaceOf(packet), length, transfer.remote);
  transfer.bytes = payload;
  MoveResult result = context_.copies.stalls().Watch(transfer.walker, [&] {
    return GatherWithIcrc(context_.keys, transfer.walker, transfer.bytes, icrc);
  });
  if (result == MoveResult::kCopied) [[unlikely]] {
    RunningIcrc of_copy = icrc_of_headers;  // That of the pass over mapped memory is meaningless.
    result = GatherCopied(qp, packet, payload, transfer, of_copy);
    icrc = of_copy;
  }
  switch (result) {
    case MoveResult::kDone:
      FinishFrame(qp, packet, frame, icrc);
      return Sent::kPacket;
    case MoveResult::kDenied:
      return FailGather(qp, packet);
    case MoveResult::kCopied:
      break;
  }
  // A capture that begins meanwhile needs the ICRC, even if it would be left out now.
  const wire::HeaderTemplate* const path = TemplateFor(qp, packet);
  if (path == nullptr) return RefuseAddress(qp);
  const uint32_t crc = wire::CrcOfHeaders(*path, StartOf(frame), frame->data_len);
  context_.copies.SubmitGather(qp, packet, transfer, crc, frame);
  return Sent::kWaits;
}

Transmitter::Sent Transmitter::Build(QueuePair& qp, const TxPacket& packet, rte_mbuf* frame) {
  uint8_t* start = StartOf(frame);
  const uint32_t length = packet.payload_bytes();
  const wire::HeaderTemplate* const path = TemplateFor(qp, packet);
  if (path == nullptr) return RefuseAddress(qp);
  // Those of a queue pair rise by one, so that a port can send its packets as superframes.
  auto identification = static_cast<uint16_t>(qp.traffic().sent_packets);
  if (IsInMemory(qp, packet) && MayJoin(qp)) {
    if (Join(qp, packet, *path, frame)) {
      context_.stash.Return(frame);
      return Sent::kJoined;
    }
    if (MayBegin(packet, qp.header_template().bth_offset()) &&
        qp.port().superframes().Lend(*frame)) {
      start = StartOf(frame);
      identification = FirstIdentification(identification);
    }
  }
  const bool leaves_icrc_out = LeavesIcrcOut(qp);
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(*path, packet.header, length, identification, start,
                          leaves_icrc_out ? wire::HeaderCrc::kLeftOut : wire::HeaderCrc::kComputed);
  uint8_t* const payload = start + headers.length_bytes;
  frame->data_len = static_cast<uint16_t>(headers.length_bytes);
  RunningIcrc icrc(headers.crc_state, leaves_icrc_out);
  if (length == 0) {
    FinishFrame(qp, packet, frame, icrc);
    return Sent::kPacket;
  }
  if (packet.payload_source == TxPacket::Source::kOwn) [[unlikely]] {
    icrc.Copy(payload, packet.own.data(), length);
    FinishFrame(qp, packet, frame, icrc);
    return Sent::kPacket;
  }
  const transport::LocalRange& local = packet.local;
  if (packet.payload_source == TxPacket::Source::kSend &&
      qp.works().send_lists().is_inline(local.slot)) {
    const uint8_t* source =
        qp.works().send_lists().InlineBytes(local.slot).data() + local.offset_bytes;
    icrc.Copy(payload, source, length);
    FinishFrame(qp, packet, frame, icrc);
    return Sent::kPacket;
  }
  return GatherPayload(qp, packet, icrc, frame);
}

bool Transmitter::Join(QueuePair& qp, const TxPacket& packet, const wire::HeaderTemplate& path,
                       rte_mbuf* frame) {
  const uint32_t length = packet.payload_bytes();
  const uint32_t udp_bytes = wire::InfoOf(packet.header.opcode).header_bytes + length +
                             static_cast<uint32_t>(wire::TrailerBytes(length));
  OpenSuperframes& superframes = qp.port().superframes();
  OpenSuperframes::Open* const open = superframes.Find(qp, udp_bytes);
  if (open == nullptr) return false;
  std::array<uint8_t, wire::kMaxHeaderBytes> headers;
  const auto identification = static_cast<uint16_t>(open->identification + open->segments);
  const wire::EncodedHeaders encoded =
      wire::EncodeHeaders(path, packet.header, length, identification, headers.data());
  const size_t own_bytes = encoded.length_bytes - open->headers_bytes;
  uint8_t* const at = StartOf(open->frame) + open->frame->data_len;
  RunningIcrc icrc(encoded.crc_state, /*is_left_out=*/false);
  Transfer transfer;
  transfer.walker = WalkPacket(qp, packet, PlaceOf(packet), length, transfer.remote);
  transfer.bytes = at + own_bytes;
  const MoveResult result = context_.copies.stalls().Watch(transfer.walker, [&] {
    return GatherWithIcrc(context_.keys, transfer.walker, transfer.bytes, icrc);
  });
  if (result != MoveResult::kDone) return false;
  std::memcpy(at, headers.data() + open->headers_bytes, own_bytes);
  wire::WriteTrailer(at + own_bytes + length, length, icrc.state());
  const uint32_t bytes = open->headers_bytes + udp_bytes;
  frame->data_len = static_cast<uint16_t>(bytes);
  superframes.Extend(*open, udp_bytes);
  ++qp.traffic().sent_packets;
  qp.traffic().sent_bytes += bytes;
  context_.congestion.OnSent(qp, packet, bytes);
  FrameRecorder::Trace(qp, packet, bytes);
  qp.port().CountAdded(bytes, udp_bytes);
  return true;
}

// Rates and limits count each packet by itself. A packet that is shorter would end the superframe.
uint32_t Transmitter::JoinRun(QueuePair& qp, const TxPacket& packet, uint32_t frame_bytes) {
  DevicePort& port = qp.port();
  transport::RcQueuePair& core = qp.core().reliable();
  if (port.is_limited() || qp.program_flow().share.is_limited() || qp.flow().rate.is_limited() ||
      core.send_gap() != Nanos(0)) {
    return 0;
  }
  const uint32_t behind = core.RunBehind(packet);
  if (behind == 0) return 0;
  const uint32_t udp_bytes = frame_bytes - static_cast<uint32_t>(qp.header_template().bth_offset());
  OpenSuperframes::Open* const open = port.superframes().Find(qp, udp_bytes);
  if (open == nullptr || open->segment_bytes != udp_bytes) return 0;
  const uint32_t turns = PacketsInTurn(qp, frame_bytes);
  const uint32_t most =
      std::min({behind, OpenSuperframes::RoomIn(*open), port.RoomInTurn(udp_bytes),
                turns - std::min(turns, 1u), transport::TxRun::kMost});
  if (most == 0) return 0;
  const uint32_t length = packet.payload_bytes();
  MessagePlace place = PlaceOf(packet);
  place.position += length;
  uroce_sge remote;
  const PieceWalker walker = WalkPacket(qp, packet, place, most * length, remote);
  MappedRun memory;
  if (context_.copies.stalls().measures() || !memory.Find(context_.keys, walker)) return 0;
  const transport::TxRun run = core.PollRun(context_.time.now(), packet, most);
  context_.copies.stalls().Watch(walker, [&] {
    WriteRun(*open, qp.header_template(), packet, run, memory);
    return true;
  });
  port.superframes().Extend(*open, udp_bytes, run.packets);
  const uint32_t bytes = run.packets * frame_bytes;
  qp.traffic().sent_packets += run.packets;
  qp.traffic().sent_bytes += bytes;
  FrameRecorder::TraceRun(qp, packet, run.packets, frame_bytes);
  port.CountAdded(frame_bytes, udp_bytes, run.packets);
  return bytes;
}

void Transmitter::WriteRun(const OpenSuperframes::Open& open, const wire::HeaderTemplate& path,
                           const TxPacket& packet, const transport::TxRun& run, MappedRun& memory) {
  const uint32_t length = packet.payload_bytes();
  const size_t own_bytes = wire::InfoOf(packet.header.opcode).header_bytes;
  std::array<uint8_t, wire::kMaxHeaderBytes> headers;
  uint8_t* at = StartOf(open.frame) + open.frame->data_len;
  std::memcpy(headers.data(), StartOf(open.frame), open.headers_bytes);
  std::memcpy(headers.data() + open.headers_bytes, at - open.segment_bytes, own_bytes);
  wire::HeaderRun next(path.ip_offset(), path.bth_offset(), path.is_ipv6(),
                       {headers.data(), open.headers_bytes + own_bytes});
  for (uint32_t i = 0; i < run.packets; ++i, at += open.segment_bytes) {
    const auto identification = static_cast<uint16_t>(open.identification + open.segments + i);
    const wire::Psn psn = packet.header.psn + (i + 1);
    const uint32_t state = next.Next(psn, (run.asks >> i & 1) != 0, identification);
    std::memcpy(at, headers.data() + open.headers_bytes, own_bytes);
    RunningIcrc icrc(state, /*is_left_out=*/false);
    memory.Gather(at + own_bytes, length, icrc);
    wire::WriteTrailer(at + own_bytes + length, length, icrc.state());
  }
}

Transmitter::Sent Transmitter::FailGather(QueuePair& qp, const TxPacket& packet) {
  qp.core().OnGatherFailed(packet);
  return Sent::kFailed;
}

Transmitter::Sent Transmitter::RefuseAddress(QueuePair& qp) {
  qp.core().OnAddressRefused();
  return Sent::kFailed;
}

void Transmitter::FinishGather(QueuePair& qp, MoveResult result) {
  const WaitingWork& waiting = qp.waiting();
  rte_mbuf* const frame = std::exchange(waiting.job->frame, nullptr);
  if (result != MoveResult::kDone) {
    rte_pktmbuf_free(frame);
    qp.core().OnGatherFailed(waiting.packet);
    return;
  }
  const std::span<const uint8_t> payload{StartOf(frame) + frame->data_len,
                                         waiting.packet.payload_bytes()};
  RunningIcrc icrc(waiting.crc_before_payload, LeavesIcrcOut(qp));
  icrc.Pass(payload);
  FinishFrame(qp, waiting.packet, frame, icrc);
  Charge(qp, frame->data_len);
}

// Code that fills a payload in later fills the bytes behind it in, too.
size_t Transmitter::PutTrailer(rte_mbuf& frame, uint32_t payload_bytes, const RunningIcrc& icrc) {
  uint8_t* const trailer = StartOf(&frame) + frame.data_len + payload_bytes;
  if (!icrc.is_left_out()) return wire::WriteTrailer(trailer, payload_bytes, icrc.state());
  pending_.Set(frame);
  return wire::WriteEmptyTrailer(trailer, payload_bytes);
}

void Transmitter::FinishFrame(QueuePair& qp, const TxPacket& packet, rte_mbuf* frame,
                              const RunningIcrc& icrc) {
  const uint32_t payload_bytes = packet.payload_bytes();
  const size_t trailer_bytes = PutTrailer(*frame, payload_bytes, icrc);
  frame->data_len = static_cast<uint16_t>(frame->data_len + payload_bytes + trailer_bytes);
  frame->pkt_len = frame->data_len;
  drivers::SetDestination(*frame, qp.path().remote_qpn);
  qp.set_has_sent_frames(true);
  ++qp.traffic().sent_packets;
  qp.traffic().sent_bytes += frame->data_len;
  context_.congestion.OnSent(qp, packet, frame->data_len);
  const uroce_capture_note annotation = context_.recorder.OnSent(qp, packet, frame);
  bool to_self = qp.peer() == PeerPlace::kSameDevice;
  if (!qp.core().is_reliable()) to_self = FinishUnreliable(qp, packet, frame);
  OpenSuperframes& superframes = qp.port().superframes();
  superframes.Close(qp);  // Also one that a packet of copied memory could not join.
  if (OpenSuperframes::IsLent(*frame)) [[unlikely]] {
    superframes.Add(qp, frame, qp.header_template().bth_offset());
  }
  qp.port().Queue(frame, to_self, annotation);
}

bool Transmitter::FinishUnreliable(QueuePair& qp, const TxPacket& packet, rte_mbuf* frame) {
  qp.core().OnSent(packet);
  if (!qp.core().is_datagram()) return qp.peer() == PeerPlace::kSameDevice;
  qp.flow().NoteDatagram(packet.path);
  const AddressVector* const vector = qp.config().session->FindAddress(packet.path);
  if (vector != nullptr) context_.congestion.OnSentTo(qp, vector->path(), frame->data_len);
  drivers::SetDestination(*frame, packet.header.dest_qpn);
  if (packet.header.dest_qpn == kMulticastQpn) LoopBack(qp, vector, *frame);
  const Mac& mac = qp.config().device->mac;
  return std::memcmp(StartOf(frame), mac.data(), mac.size()) == 0;
}

void Transmitter::LoopBack(QueuePair& qp, const AddressVector* vector, const rte_mbuf& frame) {
  DevicePort& port = qp.port();
  Count(port.counters().multicast_xmit_packets);
  if (vector == nullptr || !port.device().groups.contains(vector->path().destination)) return;
  rte_mbuf* const copy = context_.stash.Copy(frame, port.counters());
  if (copy == nullptr) return;
  drivers::SetDestination(*copy, qp.qpn());
  port.QueueLoopback(copy);
}

}  // namespace uroce::datapath
