// SPDX-License-Identifier: Apache-2.0
// What the transport asks of memory: done here where the memory is mapped, by the session's helper
// where it is not. A queue pair with an errand at the helper is parked: its transport is not called
// and its packets wait, all others go on. So is one that waits for the end of a key.
#include <rte_mbuf.h>

#include <utility>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::EffectOutcome;
using Kind = ParkedKind;

// Packets behind one parked queue pair, and behind all: a peer whose packets are dropped resends
// them, but frames that never come back would stop everybody.
constexpr uint32_t kMaxWaiting = 256;
constexpr uint32_t kMaxWaitingOfAll = 2048;
// Errands whose end is handled in one turn.
constexpr int kMaxFinished = kBurst;

uint32_t RightFor(transport::Access access) {
  switch (access) {
    case transport::Access::kRemoteRead:
      return kRemoteRead;
    case transport::Access::kRemoteWrite:
      return kRemoteWrite;
    case transport::Access::kRemoteAtomic:
      return kRemoteAtomic;
  }
  return UINT32_MAX;
}

bool IsRemote(Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceRemote || kind == Effect::Kind::kCheckRemote ||
         kind == Effect::Kind::kAtomic;
}

bool Invalidates(const Effect& effect) {
  return effect.invalidate || effect.kind == Effect::Kind::kInvalidate;
}

EffectOutcome OutcomeOf(const Effect& effect, MoveResult result) {
  if (result != MoveResult::kDenied) return EffectOutcome::kDone;
  return IsRemote(effect.kind) ? EffectOutcome::kRemoteAccess : EffectOutcome::kLocalProtection;
}

}  // namespace

bool Worker::Impl::StartEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                               rte_mbuf* frame) {
  Transfer transfer;
  const uint32_t pd = qp.config().pd;
  const transport::LocalRange& local = effect.local;
  transfer.bytes = const_cast<uint8_t*>(packet.payload.data());  // Only read: Place.
  switch (effect.kind) {
    case Effect::Kind::kNone:
      return true;
    case Effect::Kind::kInvalidate:
      FinishEffect(qp, effect, MoveResult::kDone, 0);
      return true;
    case Effect::Kind::kPlaceReceive:
      if (effect.grh_area) transfer.bytes -= transport::kGrhAreaBytes;
      transfer.walker = PieceWalker(qp.receive_list().List(local.slot), local.offset_bytes,
                                    local.length_bytes, {qp.receive_pd(), kLocalWrite});
      break;
    case Effect::Kind::kPlaceOriginal:
      qp.parked().job->value = effect.value;  // May have to outlast this turn.
      transfer.bytes = reinterpret_cast<uint8_t*>(&qp.parked().job->value);
      [[fallthrough]];
    case Effect::Kind::kPlaceSend:
      transfer.walker = PieceWalker(qp.send_lists().List(local.slot), local.offset_bytes,
                                    local.length_bytes, {pd, kLocalWrite});
      break;
    case Effect::Kind::kAtomic:
      return StartAtomic(qp, effect);
    case Effect::Kind::kCheckRemote:
    case Effect::Kind::kPlaceRemote: {
      const transport::RemoteRange& remote = effect.remote;
      const AccessRight right{pd, RightFor(effect.access), qp.qpn().value()};
      if (effect.check_length_bytes != 0 &&
          !CheckAccess(keys, remote.rkey.value(), remote.va, effect.check_length_bytes, right)) {
        FinishEffect(qp, effect, MoveResult::kDenied, 0);
        return true;
      }
      const bool places = effect.kind == Effect::Kind::kPlaceRemote;
      transfer.remote = {remote.va, remote.length_bytes, remote.rkey.value()};
      transfer.walker =
          PieceWalker({&transfer.remote, 1}, 0, places ? remote.length_bytes : 0, right);
      break;
    }
  }
  const MoveResult result = Place(keys, transfer.walker, transfer.bytes);
  if (result != MoveResult::kCopied) {
    FinishEffect(qp, effect, result, 0);
    return true;
  }
  qp.links().parked = Kind::kEffect;
  ParkedWork& parked = qp.parked();
  parked.transfer.Continue(transfer);
  parked.effect = effect;
  parked.job->frame = frame;
  SubmitCopy(qp, CopyJob::Kind::kWrite);
  return false;
}

bool Worker::Impl::StartAtomic(QueuePair& qp, const Effect& effect) {
  const transport::RemoteRange& remote = effect.remote;
  const Grant grant = CheckAccess(keys, remote.rkey.value(), remote.va, sizeof(uint64_t),
                                  {qp.config().pd, RightFor(effect.access), qp.qpn().value()});
  if (!grant) {
    FinishEffect(qp, effect, MoveResult::kDenied, 0);
    return true;
  }
  const Piece piece = PieceAt(*grant.region, grant.va, sizeof(uint64_t));
  if (piece.length_bytes != sizeof(uint64_t)) {  // Across two segments: no way to be atomic.
    FinishEffect(qp, effect, MoveResult::kDenied, 0);
    return true;
  }
  if (piece.mode == MrMode::kMapped) {
    const uint64_t original =
        ExecuteAtomic(piece.mapped, effect.compare_swap, effect.swap_add, effect.compare);
    qp.core().OnEffectDone(EffectOutcome::kDone, original, now);
    return true;
  }
  qp.links().parked = Kind::kEffect;
  ParkedWork& parked = qp.parked();
  parked.effect = effect;
  CopyJob& job = *parked.job;
  job.frame = nullptr;
  job.pieces[0] = {.app_addr = piece.app_addr, .length_bytes = sizeof(uint64_t)};
  job.piece_count = 1;
  job.swap_add = effect.swap_add;
  job.compare = effect.compare;
  SubmitCopy(qp, effect.compare_swap ? CopyJob::Kind::kCompareSwap : CopyJob::Kind::kFetchAdd);
  return true;  // Parked, but the frame is not needed any more.
}

void Worker::Impl::FinishEffect(QueuePair& qp, const Effect& effect, MoveResult result,
                                uint64_t original) {
  const EffectOutcome outcome = OutcomeOf(effect, result);
  if (outcome == EffectOutcome::kDone && Invalidates(effect)) [[unlikely]] {
    return InvalidateForPeer(qp, effect.invalidate_rkey);
  }
  qp.core().OnEffectDone(outcome, original, now);
}

void Worker::Impl::SubmitCopy(QueuePair& qp, CopyJob::Kind kind) {
  ParkedWork& parked = qp.parked();
  CopyJob* const job = parked.job.release();
  parked.in_flight = job;
  job->owner = &qp;
  job->kind = kind;
  if (kind == CopyJob::Kind::kRead || kind == CopyJob::Kind::kWrite) {
    job->bytes = parked.transfer.bytes;
    TakeCopied(keys, parked.transfer.walker, *job);
    for (uint32_t i = 0; i < job->piece_count; ++i)
      parked.transfer.bytes += job->pieces[i].length_bytes;
  }
  StopSending(qp);
  qp.config().session->copy_helper()->Submit(config.index, job);
}

bool Worker::Impl::FinishCopies() {
  bool any = false;
  // By index: who is touched may be polled again, and is added. A parked one has no copies.
  for (size_t i = 0; i < sessions.polled().size(); ++i) {
    CopyHelper* const helper = sessions.polled()[i]->session->copy_helper();
    if (helper == nullptr || helper->in_flight(config.index) == 0) continue;
    for (int taken = 0; taken < kMaxFinished; ++taken) {
      for (const auto& port : ports) {
        if (!port->HasReserve()) return true;
      }
      CopyJob* const job = helper->PollDone(config.index);
      if (job == nullptr) break;
      any = true;
      if (job->owner == nullptr) {
        delete job;
        continue;
      }
      job->owner->parked().job.reset(job);
      OnCopyDone(*job->owner);
    }
  }
  return any;
}

void Worker::Impl::OnCopyDone(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  parked.in_flight = nullptr;
  const CopyJob& job = *parked.job;
  if (!job.succeeded) {
    FinishParked(qp, MoveResult::kDenied);
  } else if (qp.links().parked == Kind::kEffect && parked.effect.kind == Effect::Kind::kAtomic) {
    FinishParked(qp, MoveResult::kDone);
  } else {
    ContinueCopy(qp);
  }
}

void Worker::Impl::ContinueCopy(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  Transfer& transfer = parked.transfer;
  const bool gathers = qp.links().parked == Kind::kGather;
  const MoveResult result = gathers ? Gather(keys, transfer.walker, transfer.bytes)
                                    : Place(keys, transfer.walker, transfer.bytes);
  if (result == MoveResult::kCopied) {
    SubmitCopy(qp, gathers ? CopyJob::Kind::kRead : CopyJob::Kind::kWrite);
    return;
  }
  FinishParked(qp, result);
}

void Worker::Impl::FinishParked(QueuePair& qp, MoveResult result) {
  ParkedWork& parked = qp.parked();
  rte_mbuf* const frame = std::exchange(parked.job->frame, nullptr);
  const Kind kind = std::exchange(qp.links().parked, Kind::kNone);
  if (kind == Kind::kEffect) {
    FinishEffect(qp, parked.effect, result, parked.job->original);
    if (frame != nullptr) rte_pktmbuf_free(frame);
    if (qp.is_parked()) return;  // For the end of a key now.
  } else if (result == MoveResult::kDone) {
    FinishGather(qp, frame);
  } else {
    rte_pktmbuf_free(frame);
    qp.core().OnGatherFailed(parked.packet, now);
  }
  EndParking(qp);
}

void Worker::Impl::EndParking(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  Touch(qp);
  if (parked.modification) {
    const ParkedWork::Modification modification = *parked.modification;
    parked.modification.reset();
    ApplyModification(qp, modification.state, modification.attributes);
  }
  TakeTurnBetweenCopies(qp);
  ReplayWaiting(qp);
}

// The first of the packets that wait may park it again, and so may each after it. Its own must not
// wait for the last of them: its peer resends what is not acknowledged in time, and gives up.
void Worker::Impl::TakeTurnBetweenCopies(QueuePair& qp) {
  if (qp.parked().oldest == nullptr || !qp.core().HasPacket(now)) return;
  if (qp.links().port->LookForRoom() == 0) return;
  uint32_t bytes = 0;
  if (SendNext(qp, bytes) == Sent::kPacket) ChargeFor(qp, bytes);
}

bool Worker::Impl::KeepForLater(QueuePair& qp, rte_mbuf* frame) {
  ParkedWork& parked = qp.parked();
  if (parked.waiting == kMaxWaiting || frames_waiting == kMaxWaitingOfAll) {
    Count(qp.links().port->counters().rx_parked_full);
    RecordAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
    return false;
  }
  ++parked.waiting;
  ++frames_waiting;
  frame->next = nullptr;
  (parked.oldest == nullptr ? parked.oldest : parked.newest->next) = frame;
  parked.newest = frame;
  return true;
}

void Worker::Impl::ReplayWaiting(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  while (parked.oldest != nullptr && !qp.is_parked()) {
    rte_mbuf* const frame = parked.oldest;
    parked.oldest = frame->next;
    frame->next = nullptr;
    --parked.waiting;
    --frames_waiting;
    wire::Packet packet;
    wire::FrameView view;
    const std::span<const uint8_t> bytes{rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len};
    // It was decoded and checked when it came; only the views have to be made anew.
    const bool decoded = wire::Decode(bytes, packet, view) == wire::DecodeResult::kOk;
    note = NoteOf(packet);
    const bool kept = decoded && Execute(qp, packet, view, frame);
    if (!kept) rte_pktmbuf_free(frame);
  }
}

void Worker::Impl::AbandonParked(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  if (parked.in_flight != nullptr) {
    parked.in_flight->owner = nullptr;  // Whoever takes it next deletes it, and its frame.
    parked.in_flight = nullptr;
    parked.job = std::make_unique<CopyJob>();
  }
  qp.links().parked = Kind::kNone;
  key_waits.Remove(qp);
  parked.modification.reset();
  while (parked.oldest != nullptr) {
    rte_mbuf* const frame = parked.oldest;
    parked.oldest = frame->next;
    frame->next = nullptr;
    RecordAbandoned(qp, UROCE_REASON_ABANDONED, frame);
    rte_pktmbuf_free(frame);
    --frames_waiting;
  }
  parked.waiting = 0;
}

}  // namespace uroce::datapath
