// SPDX-License-Identifier: Apache-2.0
// Errands of the session's helper, from the wish to its end. A queue pair with one is parked: its
// transport is not called and its packets wait, all others go on. So is one that waits for the end
// of a key.
#include <rte_mbuf.h>

#include <utility>

#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using Kind = ParkedKind;

// Errands whose end is handled in one turn.
constexpr int kMaxFinished = kBurst;

}  // namespace

void Worker::Impl::SubmitCopy(QueuePair& qp, CopyJob::Kind kind) {
  ParkedWork& parked = qp.parked();
  parked.job->kind = kind;
  if (kind == CopyJob::Kind::kRead || kind == CopyJob::Kind::kWrite) TakePieces(qp);
  CopyJob* const job = parked.job.release();
  parked.in_flight = job;
  job->owner = &qp;
  StopSending(qp);
  Session* const session = qp.memory_session();
  WorkerSession* program = qp.links().session;
  if (session != qp.config().session) {
    program = sessions.Find(session);
    sessions.NoteWork(*program, now);  // Who has copies under way is looked at in each turn.
  }
  job->errand.Begin(program->frames, (job->frame != nullptr ? 1 : 0) + job->along_count);
  session->copy_helper()->Submit(config.index, job);
}

void Worker::Impl::TakePieces(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  CopyJob& job = *parked.job;
  job.piece_count = 0;
  TakeCopied(keys, parked.transfer.walker, parked.transfer.bytes, job);
  job.own_pieces = job.piece_count;
  if (!parked.transfer.walker.at_end()) return;
  if (job.kind == CopyJob::Kind::kRead) {
    GatherAhead(qp);
  } else {
    PlaceAhead(qp);
  }
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
      job->errand.End(sessions.polled()[i]->frames);
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
  CopyJob& job = *parked.job;
  KeepAhead(qp);
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
  if (qp.core().HasKept()) ReplayKept(qp);
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

}  // namespace uroce::datapath
