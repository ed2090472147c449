// SPDX-License-Identifier: Apache-2.0
// Memory accesses and changes of keys that the transport asks for.
#include "pipeline/datapath/worker/effects.h"

#include "pipeline/datapath/queue/payload.h"

namespace uroce::datapath {
namespace {

using transport::EffectOutcome;
using transport::LocalEffect;

// Any outcome but kDone makes the work fail.
EffectOutcome OutcomeOf(const WindowChange& change) {
  return change.done ? EffectOutcome::kDone : EffectOutcome::kInvalidateFailed;
}

WindowChange Perform(const KeyTable& keys, const QueuePair& qp, const LocalEffect& effect) {
  const uint32_t pd = qp.config().pd;
  if (effect.kind == LocalEffect::Kind::kInvalidate) {
    return InvalidateWindow(keys, effect.rkey.value(), pd);
  }
  return BindWindow(keys, qp.works().send_lists().Bind(effect.slot), {pd, qp.qpn().value()});
}

// Whether another may be using the key that `qp` has taken back. If `qp` is the one queue pair that
// could use the key, no access is under way: `qp` would be waiting if one of its copies were under
// way.
bool MayStillUse(const QueuePair& qp, const WindowChange& change) {
  return change.has_ended && change.former_qpn != qp.qpn().value();
}

}  // namespace

void KeyChanges::ExecuteLocals(QueuePair& qp) {
  bool any = false;
  LocalEffect effect;
  while (qp.core().PollLocal(effect)) {
    const WindowChange change = Perform(keys_, qp, effect);
    if (MayStillUse(qp, change)) {
      waits_.Add(qp, KeyWaits::Waiting::kWork);
      return;
    }
    qp.core().OnLocalDone(OutcomeOf(change));
    any = true;
  }
  // The transport has room for posted works now, and no packet will cause another look at them.
  if (any && qp.works().may_have_sends()) ready_.Postpone(qp);
}

void KeyChanges::InvalidateForPeer(QueuePair& qp, Rkey rkey) {
  const WindowChange change =
      InvalidateWindow(keys_, rkey.value(), qp.receive_source().remote_pd());
  if (!MayStillUse(qp, change)) return qp.core().OnEffectDone(OutcomeOf(change), 0, time_.now());
  qp.set_wait(WaitKind::kInvalidate);
  StopSending(qp);
  waits_.Add(qp, KeyWaits::Waiting::kPacket);
}

namespace {

using transport::Effect;
using transport::EffectOutcome;

bool IsRemote(Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceRemote || kind == Effect::Kind::kCheckRemote ||
         kind == Effect::Kind::kAtomic;
}

bool Invalidates(const Effect& effect) {
  return effect.invalidate || effect.kind == Effect::Kind::kInvalidate;
}

// Whether an atomic may use the piece: it lies in one segment and is aligned. The requested address
// is aligned, but a region or a window may begin at any address and call its first byte 0.
bool HoldsAtomic(const Piece& piece) {
  const uint64_t address =
      piece.mode == MrMode::kMapped ? reinterpret_cast<uintptr_t>(piece.mapped) : piece.app_addr;
  return piece.length_bytes == sizeof(uint64_t) && address % sizeof(uint64_t) == 0;
}

EffectOutcome OutcomeOf(const Effect& effect, MoveResult result) {
  if (result != MoveResult::kDenied) return EffectOutcome::kDone;
  return IsRemote(effect.kind) ? EffectOutcome::kRemoteAccess : EffectOutcome::kLocalProtection;
}

}  // namespace

bool Effects::IsGranted(const QueuePair& qp, const Effect& effect) const {
  const transport::RemoteRange& remote = effect.remote;
  return effect.check_length_bytes == 0 ||
         CheckAccess(keys_, remote.rkey.value(), remote.va, effect.check_length_bytes,
                     RemoteRight(qp, RightFor(effect.access)));
}

bool Effects::Start(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                    rte_mbuf* frame) {
  Transfer transfer;
  transfer.bytes = const_cast<uint8_t*>(packet.payload.data());  // Place only reads it.
  switch (effect.kind) {
    case Effect::Kind::kNone:
      return true;
    case Effect::Kind::kKeep:
      return !Keep(qp, packet.header.psn, frame);
    case Effect::Kind::kInvalidate:
      Finish(qp, effect, MoveResult::kDone, 0);
      return true;
    case Effect::Kind::kAtomic:
      return StartAtomic(qp, effect);
    case Effect::Kind::kPlaceReceive:
      if (effect.grh_area) transfer.bytes -= transport::kGrhAreaBytes;
      break;
    case Effect::Kind::kPlaceOriginal:
      qp.waiting().job->value = effect.value;  // The value may have to outlast this turn.
      transfer.bytes = reinterpret_cast<uint8_t*>(&qp.waiting().job->value);
      break;
    case Effect::Kind::kPlaceSend:
      break;
    case Effect::Kind::kCheckRemote:
    case Effect::Kind::kPlaceRemote:
      if (!IsGranted(qp, effect)) {
        Finish(qp, effect, MoveResult::kDenied, 0);
        return true;
      }
      if (effect.kind == Effect::Kind::kPlaceRemote) break;
      Finish(qp, effect, MoveResult::kDone, 0);
      return true;
  }
  transfer.walker = WalkEffect(qp, effect.kind, PlaceOf(effect), LengthOf(effect), transfer.remote);
  if (packet.header.opcode == wire::Opcode::kAtomicWrite) [[unlikely]] {
    Piece piece;
    if (!transfer.walker.Look(keys_, piece) || !HoldsAtomic(piece)) {
      Finish(qp, effect, MoveResult::kDenied, 0);
      return true;
    }
  }
  bool is_reference = frame != nullptr && references_.IsSet(*frame);
  if (is_reference && copies_.stalls().measures()) [[unlikely]] {
    TakeIntoFrame(*frame, transfer);
    is_reference = false;
  }
  const MoveResult result = copies_.stalls().Watch(transfer.walker, [&] {
    return is_reference ? PlaceReferred(keys_, transfer.walker, transfer.bytes,
                                        references_.PayloadOf(*frame), references_.RoomOf(*frame))
                        : Place(keys_, transfer.walker, transfer.bytes);
  });
  if (result != MoveResult::kCopied) {
    Finish(qp, effect, result, 0);
    return true;
  }
  if (CopyEngine::TakePlaced(qp, effect, packet.header.psn)) {
    Finish(qp, effect, MoveResult::kDone, 0);
    return true;
  }
  const bool is_in_job = effect.kind == Effect::Kind::kPlaceOriginal;
  if (MayPrecede(packet.header.opcode) &&
      copies_.PostponeEffect(qp, effect, packet, transfer, frame)) {
    return false;
  }
  if (is_reference) TakeIntoFrame(*frame, transfer);
  const bool is_continued = wire::InfoOf(packet.header.opcode).Has(wire::OpcodeInfo::kFullPayload);
  const MoveResult moved = copies_.PlaceNow(qp, transfer, /*ends_message=*/!is_continued);
  if (moved != MoveResult::kCopied) {
    Finish(qp, effect, moved, 0);
    return true;
  }
  copies_.SubmitEffect(qp, effect, packet, transfer, is_in_job ? nullptr : frame);
  return is_in_job;
}

bool Effects::PlaceRun(const QueuePair& qp, const Effect& effect, std::span<const uint8_t> payload,
                       const wire::SegmentRun& run) {
  if (copies_.stalls().measures()) [[unlikely]]
    return false;
  if (effect.kind == Effect::Kind::kPlaceRemote && !IsGranted(qp, effect)) return false;
  uroce_sge remote;
  const PieceWalker walker = WalkEffect(qp, effect.kind, PlaceOf(effect), LengthOf(effect), remote);
  MappedRun memory;
  if (!memory.Find(keys_, walker)) return false;
  copies_.stalls().Watch(walker, [&] {
    for (uint32_t i = 0; i < run.packets; ++i) {
      memory.Place(payload.data() + size_t{i} * run.stride_bytes, payload.size());
    }
    return true;
  });
  return true;
}

void Effects::TakeIntoFrame(rte_mbuf& frame, Transfer& transfer) const {
  transfer.bytes =
      references_.RoomOf(frame) + (transfer.bytes - references_.PayloadOf(frame).data());
  references_.Settle(frame);
}

bool Effects::StartAtomic(QueuePair& qp, const Effect& effect) {
  uroce_sge entry;
  PieceWalker walker = WalkKey(entry, {effect.remote.rkey.value(), effect.remote.va},
                               sizeof(uint64_t), RemoteRight(qp, RightFor(effect.access)));
  Piece piece;
  if (!walker.Look(keys_, piece) || !HoldsAtomic(piece)) {
    Finish(qp, effect, MoveResult::kDenied, 0);
    return true;
  }
  if (piece.mode == MrMode::kMapped) {
    const uint64_t original = copies_.stalls().Watch(walker, [&] {
      return ExecuteAtomic(piece.mapped, effect.compare_swap, effect.swap_add, effect.compare);
    });
    qp.core().OnEffectDone(EffectOutcome::kDone, original, time_.now());
    return true;
  }
  uint64_t original = 0;
  const MoveResult result =
      piece.may_wait ? MoveResult::kCopied : copies_.ExecuteNow(qp, effect, piece, original);
  if (result != MoveResult::kCopied) {
    Finish(qp, effect, result, original);
    return true;
  }
  copies_.SubmitAtomic(qp, effect, piece);
  return true;  // `qp` waits, but the frame is not needed any more.
}

void Effects::Finish(QueuePair& qp, const Effect& effect, MoveResult result, uint64_t original) {
  const EffectOutcome outcome = OutcomeOf(effect, result);
  if (outcome == EffectOutcome::kDone && Invalidates(effect)) [[unlikely]] {
    return key_changes_.InvalidateForPeer(qp, effect.invalidate_rkey);
  }
  qp.core().OnEffectDone(outcome, original, time_.now());
}

bool Effects::Keep(QueuePair& qp, wire::Psn psn, rte_mbuf* frame) {
  references_.Settle(*frame);
  const bool kept = kept_frames_.Keep(qp.kept(), qp.program().frames, psn, frame);
  if (!kept) Count(qp.port().counters().rx_kept_full);
  qp.core().OnEffectDone(kept ? EffectOutcome::kDone : EffectOutcome::kNotKept, 0, time_.now());
  return kept;
}

}  // namespace uroce::datapath
