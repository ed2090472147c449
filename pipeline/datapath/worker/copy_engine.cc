// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/copy_engine.h"

#include <algorithm>
#include <memory>

#include "pipeline/datapath/worker/send_schedule.h"

namespace uroce::datapath {

using transport::Effect;

void CopyEngine::SubmitEffect(QueuePair& qp, const Effect& effect, const wire::Packet& packet,
                              const Transfer& transfer, rte_mbuf* frame) {
  qp.links().wait = WaitKind::kEffect;
  WaitingWork& waiting = qp.waiting();
  waiting.transfer.Continue(transfer);
  waiting.effect = effect;
  waiting.effect_opcode = packet.header.opcode;
  waiting.effect_psn = packet.header.psn;
  waiting.job->frame = frame;
  Submit(qp, CopyJob::Kind::kWrite);
}

void CopyEngine::SubmitAtomic(QueuePair& qp, const Effect& effect, uint64_t app_addr) {
  qp.links().wait = WaitKind::kEffect;
  qp.waiting().effect = effect;
  CopyJob& job = *qp.waiting().job;
  job.frame = nullptr;
  job.pieces[0] = {.app_addr = app_addr, .length_bytes = sizeof(uint64_t)};
  job.piece_count = job.own_pieces = 1;
  job.swap_add = effect.swap_add;
  job.compare = effect.compare;
  Submit(qp, effect.compare_swap ? CopyJob::Kind::kCompareSwap : CopyJob::Kind::kFetchAdd);
}

void CopyEngine::SubmitGather(QueuePair& qp, const transport::TxPacket& packet,
                              const Transfer& transfer, uint32_t crc_before_payload,
                              rte_mbuf* frame) {
  qp.links().wait = WaitKind::kGather;
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
  if (kind == CopyJob::Kind::kRead || kind == CopyJob::Kind::kWrite) TakePieces(qp);
  CopyJob* const job = waiting.job.release();
  waiting.in_flight = job;
  job->owner = &qp;
  StopSending(qp);
  Session* const session = qp.memory_session();
  WorkerSession* program = qp.links().session;
  if (session != qp.config().session) {
    program = context_.sessions.Find(session);
    // A program that has copies under way must be polled.
    context_.sessions.NoteWork(*program, context_.time.now());
  }
  job->frames_held.Begin(program->frames, (job->frame != nullptr ? 1 : 0) + job->batched_count);
  session->copy_helper()->Submit(context_.worker, job);
}

void CopyEngine::TakePieces(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  CopyJob& job = *waiting.job;
  job.piece_count = 0;
  TakeCopied(context_.keys, waiting.transfer.walker, waiting.transfer.bytes, job);
  job.own_pieces = job.piece_count;
  if (!waiting.transfer.walker.at_end()) return;
  if (job.kind == CopyJob::Kind::kRead) {
    batches_.PrefetchPayload(qp);
  } else {
    batches_.BatchPlacements(qp);
  }
}

bool CopyEngine::HasReserve() const {
  return std::ranges::all_of(context_.ports, [](const auto& port) { return port->HasReserve(); });
}

QueuePair* CopyEngine::TakeBack(CopyJob* job, ProgramFrames& program) {
  job->frames_held.End(program);
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
  const bool gathers = qp.links().wait == WaitKind::kGather;
  if (!gathers && waiting.effect.kind == Effect::Kind::kAtomic) return true;
  Transfer& transfer = waiting.transfer;
  result = gathers ? Gather(context_.keys, transfer.walker, transfer.bytes)
                   : Place(context_.keys, transfer.walker, transfer.bytes);
  if (result != MoveResult::kCopied) return true;
  Submit(qp, gathers ? CopyJob::Kind::kRead : CopyJob::Kind::kWrite);
  return false;
}

void CopyEngine::Abandon(QueuePair& qp) {
  CopyBatches::Forget(qp);
  WaitingWork& waiting = qp.waiting();
  if (waiting.in_flight == nullptr) return;
  waiting.in_flight->owner = nullptr;  // Whoever takes it next deletes it, and its frames.
  waiting.in_flight = nullptr;
  waiting.job = std::make_unique<CopyJob>();
}

}  // namespace uroce::datapath
