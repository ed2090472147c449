// SPDX-License-Identifier: Apache-2.0
// What the transport asks of memory: done here where the memory is mapped, by the session's helper
// where it is not.
#include "pipeline/datapath/payload_walk.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::EffectOutcome;
using Kind = ParkedKind;

bool IsRemote(Effect::Kind kind) {
  return kind == Effect::Kind::kPlaceRemote || kind == Effect::Kind::kCheckRemote ||
         kind == Effect::Kind::kAtomic;
}

bool Invalidates(const Effect& effect) {
  return effect.invalidate || effect.kind == Effect::Kind::kInvalidate;
}

// Not across two segments. And aligned: the requested address is, but the region may call its first
// byte 0 wherever that lies, or a window may.
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

bool Worker::Impl::IsGranted(const QueuePair& qp, const Effect& effect) const {
  const transport::RemoteRange& remote = effect.remote;
  return effect.check_length_bytes == 0 ||
         CheckAccess(keys, remote.rkey.value(), remote.va, effect.check_length_bytes,
                     RemoteRight(qp, RightFor(effect.access)));
}

bool Worker::Impl::StartEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                               rte_mbuf* frame) {
  Transfer transfer;
  transfer.bytes = const_cast<uint8_t*>(packet.payload.data());  // Only read: Place.
  switch (effect.kind) {
    case Effect::Kind::kNone:
      return true;
    case Effect::Kind::kKeep:
      return !Keep(qp, packet.header.psn, frame);
    case Effect::Kind::kInvalidate:
      FinishEffect(qp, effect, MoveResult::kDone, 0);
      return true;
    case Effect::Kind::kAtomic:
      return StartAtomic(qp, effect);
    case Effect::Kind::kPlaceReceive:
      if (effect.grh_area) transfer.bytes -= transport::kGrhAreaBytes;
      break;
    case Effect::Kind::kPlaceOriginal:
      qp.parked().job->value = effect.value;  // May have to outlast this turn.
      transfer.bytes = reinterpret_cast<uint8_t*>(&qp.parked().job->value);
      break;
    case Effect::Kind::kPlaceSend:
      break;
    case Effect::Kind::kCheckRemote:
    case Effect::Kind::kPlaceRemote:
      if (!IsGranted(qp, effect)) {
        FinishEffect(qp, effect, MoveResult::kDenied, 0);
        return true;
      }
      if (effect.kind == Effect::Kind::kPlaceRemote) break;
      FinishEffect(qp, effect, MoveResult::kDone, 0);
      return true;
  }
  transfer.walker = WalkEffect(qp, effect.kind, PlaceOf(effect), LengthOf(effect), transfer.remote);
  if (packet.header.opcode == wire::Opcode::kAtomicWrite) [[unlikely]] {
    Piece piece;
    if (!transfer.walker.Look(keys, piece) || !HoldsAtomic(piece)) {
      FinishEffect(qp, effect, MoveResult::kDenied, 0);
      return true;
    }
  }
  const MoveResult result = Place(keys, transfer.walker, transfer.bytes);
  if (result != MoveResult::kCopied) {
    FinishEffect(qp, effect, result, 0);
    return true;
  }
  if (IsPlaced(qp, effect, packet.header.psn)) {
    FinishEffect(qp, effect, MoveResult::kDone, 0);
    return true;
  }
  qp.links().parked = Kind::kEffect;
  ParkedWork& parked = qp.parked();
  parked.transfer.Continue(transfer);
  parked.effect = effect;
  parked.effect_opcode = packet.header.opcode;
  parked.effect_psn = packet.header.psn;
  const bool is_in_job = effect.kind == Effect::Kind::kPlaceOriginal;
  parked.job->frame = is_in_job ? nullptr : frame;
  SubmitCopy(qp, CopyJob::Kind::kWrite);
  return is_in_job;
}

bool Worker::Impl::StartAtomic(QueuePair& qp, const Effect& effect) {
  uroce_sge entry;
  PieceWalker walker = WalkKey(entry, {effect.remote.rkey.value(), effect.remote.va},
                               sizeof(uint64_t), RemoteRight(qp, RightFor(effect.access)));
  Piece piece;
  if (!walker.Look(keys, piece) || !HoldsAtomic(piece)) {
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
  job.piece_count = job.own_pieces = 1;
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

}  // namespace uroce::datapath
