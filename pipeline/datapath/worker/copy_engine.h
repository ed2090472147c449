// SPDX-License-Identifier: Apache-2.0
// Queue pairs that wait for a copy: the jobs of the copy helpers, and the payload of later packets
// that the same jobs place or prefetch.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/stall_watch.h"

namespace uroce::datapath {

/// Whether payload of later packets may be placed by the copy job of such a packet: the rest of its
/// message, or WRITEs behind it.
inline bool MayPrecede(wire::Opcode opcode) {
  return wire::InfoOf(opcode).Has(wire::OpcodeInfo::kFullPayload) ||
         opcode == wire::Opcode::kWriteOnly || opcode == wire::Opcode::kWriteLast;
}

/// Adds payload of the next packets to the copy job of one packet, since most of a job's
/// cost is time between threads, and a worker's access costs a system call. A wrong prediction is
/// dropped, and its packet is copied again. The job of one packet also holds payload of later
/// packets: it places payload of received packets that wait, and prefetches payload of packets that
/// are not yet polled. One thread.
class CopyBatches {
 public:
  CopyBatches(const KeyTable& keys, const WaitingFrames& waiting_frames, FrameStash& stash)
      : keys_(keys), waiting_frames_(waiting_frames), stash_(stash) {}

  /// Adds the payload of waiting packets to the copy job of the packet before them. `for_worker`:
  /// see TakeCopied.
  void BatchPlacements(QueuePair& qp, bool for_worker);
  /// Copies payload that lies elsewhere into the frames that wait at `qp`: they outlast the turn.
  void TakeIntoFrames(QueuePair& qp) const;
  /// Does the same for the frames of `job`, too.
  void TakeIntoFrames(QueuePair& qp, CopyJob& job) const;
  /// Adds the payload that the message sends behind `packet` to the copy job of that packet.
  /// `for_worker`: see TakeCopied.
  void PrefetchPayload(QueuePair& qp, const transport::TxPacket& packet, bool for_worker);
  /// Called when the job of `qp` is done: keeps what it placed and prefetched for later packets.
  static void Keep(QueuePair& qp);
  /// The same for a job of `packet`, and for what it prefetched.
  static void KeepPrefetched(QueuePair& qp, const transport::TxPacket& packet);
  /// True: the payload of packet `psn` was placed before, and `effect`, which places it, is done.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn);
  /// Returns a frame with the payload of `packet`, if it was prefetched, and nothing in front of
  /// it. The caller frees it. Else null.
  static rte_mbuf* TakePrefetched(QueuePair& qp, const transport::TxPacket& packet);
  static void Forget(QueuePair& qp);

 private:
  static void DropPrefetched(QueuePair& qp, PrefetchedPayload& prefetched);

  const KeyTable& keys_;
  const WaitingFrames& waiting_frames_;
  FrameStash& stash_;
  const PayloadReference references_;
};

/// The parts of a worker that its copy jobs use.
struct CopyContext {
  uint32_t worker = 0;
  const KeyTable& keys;
  const DevicePorts& ports;
  SessionList& sessions;
  const TurnTime& time;
  StallWatch& stalls;
};

/// Accesses copied memory: in this turn, where workers may (CopyHelper::DoNow), else by jobs of the
/// session's copy helper. A queue pair with a job waits: its transport is not called and its
/// packets are kept, while all other queue pairs go on. One thread.
class CopyEngine {
 public:
  CopyEngine(const CopyContext& context, const CopyBatches& batches)
      : context_(context), batches_(batches) {}

  /// Watches accesses to mapped memory, also those of other parts.
  StallWatch& stalls() { return context_.stalls; }

  // ---- at once; `qp` does not wait ----
  /// Moves the payload of `packet`, from mapped memory too, to the frame, and prefetches what the
  /// message sends behind it. kCopied: a job has to move the rest, from `transfer` on.
  MoveResult GatherNow(QueuePair& qp, const transport::TxPacket& packet, Transfer& transfer);
  /// Moves the bytes of `transfer` to memory, to mapped memory too. `ends_message`: see CopyPiece.
  /// kCopied: as above.
  MoveResult PlaceNow(QueuePair& qp, Transfer& transfer, bool ends_message);
  /// Executes an atomic on `piece`. kCopied: a job has to.
  MoveResult ExecuteNow(QueuePair& qp, const transport::Effect& effect, const Piece& piece,
                        uint64_t& original);

  // ---- `qp` waits from then on ----
  /// Submits a job for `effect` of `packet`, whose payload goes to the position of `transfer`.
  /// `frame` holds the payload and belongs to the job; null where the payload is in the job.
  void SubmitEffect(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
                    const Transfer& transfer, rte_mbuf* frame);
  /// Does the same for a packet that others may follow in one job (MayPrecede): FinishDue does or
  /// submits the job, with the packets that have come until then, since a copy for many packets
  /// costs little more than one for a single packet. False: the memory may wait; SubmitEffect is
  /// for it.
  [[nodiscard]] bool PostponeEffect(QueuePair& qp, const transport::Effect& effect,
                                    const wire::Packet& packet, const Transfer& transfer,
                                    rte_mbuf* frame);
  /// Submits a job for an atomic on `piece`.
  void SubmitAtomic(QueuePair& qp, const transport::Effect& effect, const Piece& piece);
  /// Submits a job for the payload of `packet`. `frame` holds its headers and belongs to the job.
  void SubmitGather(QueuePair& qp, const transport::TxPacket& packet, const Transfer& transfer,
                    uint32_t crc_before_payload, rte_mbuf* frame);

  /// Take what earlier jobs have done for this packet: see CopyBatches.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn) {
    return CopyBatches::TakePlaced(qp, effect, psn);
  }
  static rte_mbuf* TakePrefetched(QueuePair& qp, const transport::TxPacket& packet) {
    return CopyBatches::TakePrefetched(qp, packet);
  }

  /// Calls `on_end(QueuePair&, MoveResult)` for each queue pair whose bytes have all been moved, or
  /// cannot be. The queue pair still waits during the call. Handles a bounded number per turn, as
  /// far as there is room for the packets that may leave.
  template <typename OnEnd>
  bool TakeFinished(OnEnd&& on_end) {
    bool any = false;
    // By index: `on_end` may add programs that are polled again. One not polled has no copies.
    const std::vector<WorkerSession*>& polled = context_.sessions.polled();
    for (size_t i = 0; i < polled.size(); ++i) {
      CopyHelper* const helper = polled[i]->session->copy_helper();
      if (helper == nullptr || helper->in_flight(context_.worker) == 0) continue;
      for (int taken = 0; taken < kMaxFinished; ++taken) {
        if (!HasReserve()) return true;
        CopyJob* const job = helper->PollDone(context_.worker);
        if (job == nullptr) break;
        any = true;
        MoveResult result = MoveResult::kDone;
        QueuePair* const qp = TakeBack(job);
        if (qp != nullptr && HasEnded(*qp, result)) on_end(*qp, result);
      }
    }
    return any;
  }

  /// Does what PostponeEffect has postponed, and calls `on_end` as TakeFinished does. Called before
  /// the turn ends: a key that is taken back has no use by this worker then.
  template <typename OnEnd>
  bool FinishDue(OnEnd&& on_end) {
    bool any = false;
    while (CopyJob* const job = due_.Take()) {
      any = true;
      MoveResult result = MoveResult::kDone;
      QueuePair* const qp = TakeBack(job);
      if (qp == nullptr) continue;
      if (DoDue(*qp) && HasEnded(*qp, result)) on_end(*qp, result);
      if (!qp->waiting().is_due) batches_.TakeIntoFrames(*qp);
    }
    return any;
  }

  /// Forgets the job of `qp` that is under way, and what jobs have done for its later packets. The
  /// job may still write to the program's memory: see CopyHelper::Abandon.
  static void Abandon(QueuePair& qp);

 private:
  static constexpr int kMaxFinished = kBurst;  // Finished jobs of a program handled per turn.

  /// Makes the job of `qp` one for an atomic.
  static void FillAtomic(CopyJob& job, const transport::Effect& effect, const Piece& piece);
  bool DoNow(const QueuePair& qp, CopyJob& job) const {
    return qp.receive_source().memory_session()->copy_helper()->DoNow(context_.worker, job);
  }
  bool IsForProgram(const QueuePair& qp, uint32_t bytes, uint32_t ranges) const {
    const CopyHelper& helper = *qp.receive_source().memory_session()->copy_helper();
    return helper.IsForProgram(context_.worker, bytes, ranges);
  }
  /// Makes `job` one for the copied pieces that come next, as far as workers may access them.
  /// `bytes` advances with `walker`.
  void FillForWorker(CopyJob& job, CopyJob::Kind kind, PieceWalker& walker, uint8_t*& bytes) const;
  /// Moves bytes of mapped memory, as Gather or Place does.
  MoveResult MoveMapped(CopyJob::Kind kind, Transfer& transfer);
  void Submit(QueuePair& qp, CopyJob::Kind kind);
  /// Gives the job of `qp` to the helper.
  void GiveToHelper(QueuePair& qp);
  /// The job of `qp`, which is under way from now on and counts among the frames of `program`.
  static CopyJob* Begin(QueuePair& qp, WorkerSession& program);
  /// Has `qp` wait for the effect of `packet`.
  static void WaitForEffect(QueuePair& qp, const transport::Effect& effect,
                            const wire::Packet& packet, const Transfer& transfer, rte_mbuf* frame);
  /// Does the job of `qp`, which was due. False: the helper does it.
  bool DoDue(QueuePair& qp);
  /// Puts the copied pieces that come next into the job of `qp`.
  void TakePieces(QueuePair& qp);
  bool HasReserve() const;
  /// Returns the queue pair of `job`. Null: the queue pair has gone, and the job is freed.
  static QueuePair* TakeBack(CopyJob* job);
  /// False: the copy of `qp` continues with another job.
  bool HasEnded(QueuePair& qp, MoveResult& result);

  const CopyContext context_;
  CopyBatches batches_;
  CopyJobQueue due_;  ///< Empty at the end of a turn.
};

}  // namespace uroce::datapath
