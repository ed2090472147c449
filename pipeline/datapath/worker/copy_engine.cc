// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/copy_engine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/frame.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::TxPacket;
using wire::OpcodeInfo;

// The most waiting packets that are looked at for one copy job.
constexpr uint32_t kMaxLooks = 64;
// How many packets of so many bytes may follow a packet in its copy job.
uint32_t MostBatched(uint32_t length_bytes) {
  return std::min(CopyJob::kMaxBatched, CopyJob::kMaxBatchedBytes / std::max(length_bytes, 1u));
}
// The traits that distinguish kinds of messages.
constexpr uint16_t kKindTraits =
    OpcodeInfo::kSend | OpcodeInfo::kWrite | OpcodeInfo::kRead | OpcodeInfo::kResponse;

bool PlacesMessage(Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceReceive || kind == Effect::Kind::kPlaceSend ||
         kind == Effect::Kind::kPlaceRemote;
}

MessagePlace Behind(MessagePlace place, uint32_t length_bytes) {
  return {place.key, place.position + length_bytes};
}

/// Whether a packet is followed by more of its message.
bool IsContinued(wire::Opcode opcode) { return wire::InfoOf(opcode).Has(OpcodeInfo::kFullPayload); }

/// Sets `place` to where `packet` places its payload, which `before` precedes: behind that of
/// `before`, at `place`, or where a WRITE that begins says. Only a WRITE that asks for nothing else
/// comes behind the end of another, and only where its key grants it the whole of its range:
/// nothing but its key can make it fail. False: not known.
bool FindPlace(const KeyTable& keys, const QueuePair& qp, wire::Opcode before,
               const wire::Packet& packet, MessagePlace& place) {
  if (packet.payload.empty()) return false;
  const wire::Opcode opcode = packet.header.opcode;
  if (IsContinued(before)) return !wire::InfoOf(opcode).Has(OpcodeInfo::kFirst);
  const wire::Reth& reth = packet.header.reth;
  place = {reth.rkey.value(), reth.va};
  if (opcode == wire::Opcode::kWriteOnly) return reth.length_bytes == packet.payload.size();
  return opcode == wire::Opcode::kWriteFirst && reth.length_bytes > packet.payload.size() &&
         CheckAccess(keys, place.key, place.position, reth.length_bytes,
                     RemoteRight(qp, kRemoteWrite));
}

/// Adds the whole of a packet's payload to `job`, or nothing.
bool TakeWhole(const KeyTable& keys, PieceWalker walker, uint8_t* bytes, rte_mbuf* frame,
               CopyJob& job, bool for_worker) {
  const uint32_t before = job.piece_count;
  TakeCopied(keys, walker, bytes, job, for_worker);
  if (!walker.at_end()) {
    job.piece_count = before;
    return false;
  }
  job.batched[job.batched_count++] = {frame, job.piece_count};
  return true;
}

PrefetchedPayload& PrefetchedFor(WaitingWork& waiting, const TxPacket& packet) {
  return packet.payload_source == TxPacket::Source::kRemote ? waiting.prefetched_responses
                                                            : waiting.prefetched_requests;
}

/// How many packets of `batched` the job has moved as a whole.
uint32_t WholeBatched(const CopyJob& job) {
  uint32_t whole = 0;
  while (job.succeeded && whole < job.batched_count &&
         job.batched[whole].pieces_end <= job.moved_pieces) {
    ++whole;
  }
  return whole;
}

/// How many frames the job counts as: those that its queue pair does not keep, since what a job
/// places lies in packets that wait. A job without a frame counts as one: a queue pair that ends or
/// is reset leaves its job behind.
uint32_t OwnFrames(const CopyJob& job) {
  const uint32_t prefetched = job.kind == CopyJob::Kind::kRead ? job.batched_count : 0;
  const uint32_t frames = (job.frame != nullptr ? 1 : 0) + prefetched;
  return std::max(frames, 1u);
}

BatchedPlacements& PlacedFor(WaitingWork& waiting, Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceSend ? waiting.placed_responses : waiting.placed_requests;
}

}  // namespace

void CopyBatches::BatchPlacements(QueuePair& qp, bool for_worker) {
  WaitingWork& waiting = qp.waiting();
  CopyJob& job = *waiting.job;
  const Effect& effect = waiting.effect;
  if (!PlacesMessage(effect.kind)) return;
  BatchedPlacements& placed = PlacedFor(waiting, effect.kind);
  placed.Clear();
  wire::Opcode opcode = waiting.effect_opcode;
  job.SetEnd(!IsContinued(opcode));
  // A queue pair that goes to an error state executes nothing behind this packet.
  if (waiting.modification) return;
  const uint16_t kind = wire::InfoOf(opcode).traits & kKindTraits;
  MessagePlace place = Behind(PlaceOf(effect), LengthOf(effect));
  wire::Psn psn = waiting.effect_psn + 1;
  uint32_t looks = 0;
  uint32_t bytes = 0;
  for (rte_mbuf* frame = waiting.oldest;
       frame != nullptr && MayPrecede(opcode) && ++looks <= kMaxLooks &&
       job.batched_count < CopyJob::kMaxBatched;
       frame = frame->next) {
    wire::Packet packet;
    wire::FrameView view;
    if (!DecodeAgain(*frame, references_, packet, view)) break;
    const OpcodeInfo& its = wire::InfoOf(packet.header.opcode);
    if ((its.traits & kKindTraits) != kind || packet.header.psn != psn) continue;
    const auto length = static_cast<uint32_t>(packet.payload.size());
    uroce_sge entry;
    bytes += length;
    if (bytes > CopyJob::kMaxBatchedBytes || !FindPlace(keys_, qp, opcode, packet, place) ||
        !TakeWhole(keys_, WalkEffect(qp, effect.kind, place, length, entry),
                   const_cast<uint8_t*>(packet.payload.data()), frame, job, for_worker)) {
      break;
    }
    placed.packets[job.batched_count - 1] = {place, length};
    rte_mbuf_refcnt_update(frame, 1);
    opcode = packet.header.opcode;
    job.SetEnd(!IsContinued(opcode));
    psn = psn + 1;
    place = Behind(place, length);
  }
}

namespace {

/// Copies the payload of `frame` into it. The pieces of `job` from `first` on lie in the payload.
void Settle(const PayloadReference& references, CopyJob& job, uint32_t first, uint32_t end,
            rte_mbuf* frame) {
  if (frame == nullptr || !references.IsSet(*frame)) return;
  const uint8_t* const payload = references.PayloadOf(*frame).data();
  for (uint32_t i = first; i < end; ++i) {
    job.pieces[i].bytes = references.RoomOf(*frame) + (job.pieces[i].bytes - payload);
  }
  references.Settle(*frame);
}

}  // namespace

void CopyBatches::TakeIntoFrames(QueuePair& qp, CopyJob& job) const {
  Settle(references_, job, 0, job.own_pieces, job.frame);
  uint32_t first = job.own_pieces;
  for (uint32_t i = 0; i < job.batched_count; ++i) {
    Settle(references_, job, first, job.batched[i].pieces_end, job.batched[i].frame);
    first = job.batched[i].pieces_end;
  }
  TakeIntoFrames(qp);
}

void CopyBatches::TakeIntoFrames(QueuePair& qp) const {
  if (!std::exchange(qp.waiting().refers, false)) return;
  for (rte_mbuf* frame = qp.waiting().oldest; frame != nullptr; frame = frame->next) {
    references_.Settle(*frame);
  }
}

bool CopyBatches::TakePlaced(QueuePair& qp, const Effect& effect, wire::Psn psn) {
  BatchedPlacements& placed = PlacedFor(qp.waiting(), effect.kind);
  if (placed.empty() || effect.kind != placed.kind || psn != placed.psn) return false;
  const BatchedPlacements::Placed& packet = placed.packets[placed.next];
  if (PlaceOf(effect) != packet.place || LengthOf(effect) != packet.length_bytes) return false;
  ++placed.next;
  placed.psn = psn + 1;
  return true;
}

void CopyBatches::PrefetchPayload(QueuePair& qp, const TxPacket& packet, bool for_worker) {
  CopyJob& job = *qp.waiting().job;
  MessagePlace place = Behind(PlaceOf(packet), packet.payload_bytes());
  uint32_t left = packet.following_bytes;
  const bool has_room = waiting_frames_.HasRoom(qp.program().frames);
  const uint32_t most = MostBatched(packet.payload_bytes());
  while (left != 0 && job.batched_count < most && has_room) {
    rte_mbuf* const frame = stash_.Take(qp.port().counters());
    if (frame == nullptr) return;
    const uint32_t length = std::min(left, packet.payload_bytes());
    uroce_sge entry;
    if (!TakeWhole(keys_, WalkPacket(qp, packet, place, length, entry),
                   rte_pktmbuf_mtod(frame, uint8_t*), frame, job, for_worker)) {
      stash_.Return(frame);
      return;
    }
    frame->data_len = static_cast<uint16_t>(length);
    place = Behind(place, length);
    left -= length;
  }
}

rte_mbuf* CopyBatches::TakePrefetched(QueuePair& qp, const TxPacket& packet) {
  PrefetchedPayload& prefetched = PrefetchedFor(qp.waiting(), packet);
  if (prefetched.empty()) return nullptr;
  rte_mbuf* const frame = prefetched.frames[prefetched.next];
  const uint32_t length = packet.payload_bytes();
  if (packet.header.psn != prefetched.psn || PlaceOf(packet) != prefetched.place ||
      frame->data_len != length) {
    DropPrefetched(qp, prefetched);  // The transport sends something again.
    return nullptr;
  }
  WaitingFrames::Give(qp.program().frames);
  ++prefetched.next;
  prefetched.psn = prefetched.psn + 1;
  prefetched.place = Behind(prefetched.place, length);
  return frame;
}

void CopyBatches::Keep(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  CopyJob& job = *waiting.job;
  if (qp.wait() == WaitKind::kEffect) {
    const Effect& effect = waiting.effect;
    BatchedPlacements& placed = PlacedFor(waiting, effect.kind);
    placed.kind = effect.kind;
    placed.psn = waiting.effect_psn + 1;
    placed.next = 0;
    placed.end = WholeBatched(job);
    job.DropBatched();
    return;
  }
  KeepPrefetched(qp, waiting.packet);
}

void CopyBatches::KeepPrefetched(QueuePair& qp, const TxPacket& packet) {
  WaitingWork& waiting = qp.waiting();
  CopyJob& job = *waiting.job;
  const uint32_t whole = WholeBatched(job);
  PrefetchedPayload& prefetched = PrefetchedFor(waiting, packet);
  DropPrefetched(qp, prefetched);
  prefetched.place = Behind(PlaceOf(packet), packet.payload_bytes());
  prefetched.psn = packet.header.psn + 1;
  prefetched.end = whole;
  WaitingFrames::Take(qp.program().frames, whole);
  for (uint32_t i = 0; i < whole; ++i) prefetched.frames[i] = job.batched[i].frame;
  for (uint32_t i = whole; i < job.batched_count; ++i) rte_pktmbuf_free(job.batched[i].frame);
  job.batched_count = 0;
}

void CopyBatches::DropPrefetched(QueuePair& qp, PrefetchedPayload& prefetched) {
  WaitingFrames::Give(qp.program().frames, prefetched.end - prefetched.next);
  for (; !prefetched.empty(); ++prefetched.next)
    rte_pktmbuf_free(prefetched.frames[prefetched.next]);
  prefetched.next = prefetched.end = 0;
}

void CopyBatches::Forget(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  waiting.placed_requests.Clear();
  waiting.placed_responses.Clear();
  DropPrefetched(qp, waiting.prefetched_requests);
  DropPrefetched(qp, waiting.prefetched_responses);
}

using transport::Effect;
using transport::TxPacket;

void CopyEngine::FillForWorker(CopyJob& job, CopyJob::Kind kind, PieceWalker& walker,
                               uint8_t*& bytes) const {
  job.kind = kind;
  job.piece_count = 0;
  TakeCopied(context_.keys, walker, bytes, job, /*for_worker=*/true);
  job.own_pieces = job.piece_count;
}

MoveResult CopyEngine::GatherNow(QueuePair& qp, const TxPacket& packet, Transfer& transfer) {
  CopyJob& job = *qp.waiting().job;
  for (;;) {
    const MoveResult result = MoveMapped(CopyJob::Kind::kRead, transfer);
    if (result != MoveResult::kCopied) return result;
    PieceWalker walker = transfer.walker;
    uint8_t* bytes = transfer.bytes;
    FillForWorker(job, CopyJob::Kind::kRead, walker, bytes);
    if (job.piece_count == 0) return MoveResult::kCopied;
    // Where a packet is mapped in part, so may be the rest of its message.
    const bool is_whole = walker.at_end() && job.bytes() == packet.payload_bytes();
    if (is_whole && IsForProgram(qp, packet.payload_bytes() + packet.following_bytes, 1)) {
      return MoveResult::kCopied;
    }
    if (walker.at_end()) batches_.PrefetchPayload(qp, packet, /*for_worker=*/true);
    if (!DoNow(qp, job)) {
      job.DropBatched();
      return MoveResult::kCopied;
    }
    CopyBatches::KeepPrefetched(qp, packet);
    if (!job.succeeded) return MoveResult::kDenied;
    transfer.walker = walker;
    transfer.bytes = bytes;
  }
}

MoveResult CopyEngine::PlaceNow(QueuePair& qp, Transfer& transfer, bool ends_message) {
  CopyJob& job = *qp.waiting().job;
  for (;;) {
    const MoveResult result = MoveMapped(CopyJob::Kind::kWrite, transfer);
    if (result != MoveResult::kCopied) return result;
    PieceWalker walker = transfer.walker;
    uint8_t* bytes = transfer.bytes;
    FillForWorker(job, CopyJob::Kind::kWrite, walker, bytes);
    job.SetEnd(ends_message);
    if (job.piece_count == 0 || !DoNow(qp, job)) return MoveResult::kCopied;
    if (!job.succeeded) return MoveResult::kDenied;
    transfer.walker = walker;
    transfer.bytes = bytes;
  }
}

MoveResult CopyEngine::MoveMapped(CopyJob::Kind kind, Transfer& transfer) {
  return context_.stalls.Watch(transfer.walker, [&] {
    return kind == CopyJob::Kind::kRead ? Gather(context_.keys, transfer.walker, transfer.bytes)
                                        : Place(context_.keys, transfer.walker, transfer.bytes);
  });
}

MoveResult CopyEngine::ExecuteNow(QueuePair& qp, const Effect& effect, const Piece& piece,
                                  uint64_t& original) {
  CopyJob& job = *qp.waiting().job;
  FillAtomic(job, effect, piece);
  if (!DoNow(qp, job)) return MoveResult::kCopied;
  original = job.original;
  return job.succeeded ? MoveResult::kDone : MoveResult::kDenied;
}

void CopyEngine::FillAtomic(CopyJob& job, const Effect& effect, const Piece& piece) {
  job.kind = effect.compare_swap ? CopyJob::Kind::kCompareSwap : CopyJob::Kind::kFetchAdd;
  job.pieces[0] = {
      .app_addr = piece.app_addr, .length_bytes = sizeof(uint64_t), .is_staged = piece.is_staged};
  job.piece_count = job.own_pieces = 1;
  job.swap_add = effect.swap_add;
  job.compare = effect.compare;
}

void CopyEngine::SubmitEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                              const Transfer& transfer, rte_mbuf* frame) {
  WaitForEffect(qp, effect, packet, transfer, frame);
  Submit(qp, CopyJob::Kind::kWrite);
}

void CopyEngine::WaitForEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                               const Transfer& transfer, rte_mbuf* frame) {
  qp.set_wait(WaitKind::kEffect);
  WaitingWork& waiting = qp.waiting();
  waiting.transfer.Continue(transfer);
  waiting.effect = effect;
  waiting.effect_opcode = packet.header.opcode;
  waiting.effect_psn = packet.header.psn;
  waiting.job->frame = frame;
}

bool CopyEngine::PostponeEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                                const Transfer& transfer, rte_mbuf* frame) {
  PieceWalker walker = transfer.walker;
  uint8_t* bytes = transfer.bytes;
  FillForWorker(*qp.waiting().job, CopyJob::Kind::kWrite, walker, bytes);
  if (!walker.at_end()) return false;
  WaitForEffect(qp, effect, packet, transfer, frame);
  qp.waiting().transfer.walker = walker;
  qp.waiting().transfer.bytes = bytes;
  qp.waiting().is_due = true;
  due_.Post(Begin(qp, qp.program()));
  return true;
}

bool CopyEngine::DoDue(QueuePair& qp) {
  qp.waiting().is_due = false;
  batches_.BatchPlacements(qp, /*for_worker=*/true);
  CopyJob& job = *qp.waiting().job;
  if (!IsForProgram(qp, job.bytes(), job.ranges()) && DoNow(qp, job)) return true;
  batches_.TakeIntoFrames(qp, job);
  GiveToHelper(qp);
  return false;
}

void CopyEngine::SubmitAtomic(QueuePair& qp, const Effect& effect, const Piece& piece) {
  qp.set_wait(WaitKind::kEffect);
  qp.waiting().effect = effect;
  CopyJob& job = *qp.waiting().job;
  job.frame = nullptr;
  FillAtomic(job, effect, piece);
  Submit(qp, job.kind);
}

void CopyEngine::SubmitGather(QueuePair& qp, const transport::TxPacket& packet,
                              const Transfer& transfer, uint32_t crc_before_payload,
                              rte_mbuf* frame) {
  qp.set_wait(WaitKind::kGather);
  WaitingWork& waiting = qp.waiting();
  waiting.transfer.Continue(transfer);
  waiting.packet = packet;
  waiting.crc_before_payload = crc_before_payload;
  waiting.job->frame = frame;
  Submit(qp, CopyJob::Kind::kRead);
}

void CopyEngine::Submit(QueuePair& qp, CopyJob::Kind kind) {
  WaitingWork& waiting = qp.waiting();
  waiting.job->kind = kind;
  batches_.TakeIntoFrames(qp);  // The job may take some of them along.
  if (kind == CopyJob::Kind::kRead || kind == CopyJob::Kind::kWrite) TakePieces(qp);
  GiveToHelper(qp);
}

CopyJob* CopyEngine::Begin(QueuePair& qp, WorkerSession& program) {
  WaitingWork& waiting = qp.waiting();
  CopyJob* const job = waiting.job.release();
  waiting.in_flight = job;
  job->owner = &qp;
  StopSending(qp);
  job->frames_held.Begin(program.frames, OwnFrames(*job));
  return job;
}

void CopyEngine::GiveToHelper(QueuePair& qp) {
  Session* const session = qp.receive_source().memory_session();
  if (session->rest() != nullptr) session->rest()->EndIfOver(context_.time.now());
  WorkerSession* program = &qp.program();
  if (session != qp.config().session) {
    program = context_.sessions.Find(session);
    // A program that has copies under way must be polled.
    context_.sessions.NoteWork(*program, context_.time.now());
  }
  session->copy_helper()->Submit(context_.worker, Begin(qp, *program));
}

void CopyEngine::TakePieces(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  CopyJob& job = *waiting.job;
  job.piece_count = 0;
  TakeCopied(context_.keys, waiting.transfer.walker, waiting.transfer.bytes, job);
  job.own_pieces = job.piece_count;
  job.SetEnd(true);
  if (!waiting.transfer.walker.at_end()) return;
  if (job.kind == CopyJob::Kind::kRead) {
    batches_.PrefetchPayload(qp, waiting.packet, /*for_worker=*/false);
  } else {
    batches_.BatchPlacements(qp, /*for_worker=*/false);
  }
}

bool CopyEngine::HasReserve() const {
  return std::ranges::all_of(context_.ports, [](const auto& port) { return port->HasReserve(); });
}

QueuePair* CopyEngine::TakeBack(CopyJob* job) {
  job->frames_held.End();
  if (job->owner == nullptr) {
    delete job;
    return nullptr;
  }
  job->owner->waiting().job.reset(job);
  job->owner->waiting().in_flight = nullptr;
  return job->owner;
}

bool CopyEngine::HasEnded(QueuePair& qp, MoveResult& result) {
  WaitingWork& waiting = qp.waiting();
  CopyBatches::Keep(qp);
  if (!waiting.job->succeeded) {
    result = MoveResult::kDenied;
    return true;
  }
  const bool gathers = qp.wait() == WaitKind::kGather;
  if (!gathers && waiting.effect.kind == Effect::Kind::kAtomic) return true;
  Transfer& transfer = waiting.transfer;
  const CopyJob::Kind kind = gathers ? CopyJob::Kind::kRead : CopyJob::Kind::kWrite;
  result = MoveMapped(kind, transfer);
  if (result != MoveResult::kCopied) return true;
  Submit(qp, kind);
  return false;
}

void CopyEngine::Abandon(QueuePair& qp) {
  CopyBatches::Forget(qp);
  WaitingWork& waiting = qp.waiting();
  waiting.is_due = false;
  if (waiting.in_flight == nullptr) return;
  // The queue pair drops its packets, but some of them are still frames of the job.
  CopyJob& job = *waiting.in_flight;
  if (job.kind == CopyJob::Kind::kWrite) job.frames_held.Add(job.batched_count);
  qp.receive_source().memory_session()->copy_helper()->Abandon(job);
  waiting.in_flight->owner = nullptr;  // The thread that takes it next deletes it, and its frames.
  waiting.in_flight = nullptr;
  waiting.job = std::make_unique<CopyJob>();
}

}  // namespace uroce::datapath
