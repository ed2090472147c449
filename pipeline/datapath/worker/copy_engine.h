// SPDX-License-Identifier: Apache-2.0
// Queue pairs that wait for a copy: the jobs of the copy helpers, the payload of later packets that
// the same jobs place or prefetch, the packets that arrive meanwhile, and the queue pairs that must
// not send meanwhile.
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

namespace uroce::datapath {

// Packets behind a queue pair that waits for a copy, and queue pairs that must not send because
// their peer has too many of these.

/// Keeps packets that wait behind a queue pair's copy job in WaitingWork, within the limits of
/// WaitingFrames. Closes the gate of a queue pair behind which many wait, so that peers in the
/// daemon wait, too. One thread.
class WaitingPackets {
 public:
  /// `gates` is null when the daemon has one worker.
  WaitingPackets(const FrameLimits& limits, ReceiveGates* gates, FrameRecorder& recorder)
      : frames_(limits), gates_(gates), recorder_(recorder) {}

  const WaitingFrames& frames() const { return frames_; }
  /// Whether another frame may wait for the helper of `qp`. True where there is no helper.
  bool MayWait(const QueuePair& qp) const {
    return frames_.HasRoom(qp.program().frames) ||
           qp.receive_source().memory_session()->copy_helper() == nullptr;
  }
  /// Keeps a packet. False: no room; it is dropped and counted, and the caller keeps the frame.
  bool Keep(QueuePair& qp, rte_mbuf* frame);
  /// Drops and counts a packet that would have to wait.
  void Drop(QueuePair& qp, const rte_mbuf* frame);
  /// Returns the oldest frame that waits, which the caller then owns; null: none. The caller calls
  /// TendGate after the last Take.
  rte_mbuf* Take(QueuePair& qp);
  /// Closes the gate of `qp` when many packets wait, and opens it when few do.
  void TendGate(QueuePair& qp);
  /// Drops all packets that wait behind `qp`.
  void Abandon(QueuePair& qp);

 private:
  WaitingFrames frames_;
  ReceiveGates* const gates_;
  FrameRecorder& recorder_;
};

/// Holds queue pairs whose peer in the daemon has closed its gate, and those whose program has so
/// many frames waiting that it may not have another copy job. One thread.
class HeldSenders {
 public:
  /// `gates` is null when the daemon has one worker.
  HeldSenders(const ReceiveGates* gates, const WaitingPackets& waiting)
      : gates_(gates), waiting_(waiting) {}

  /// Whether `qp` must not send now.
  bool MustHold(const QueuePair& qp) const { return IsPeerFull(qp) || !waiting_.MayWait(qp); }
  /// Adds `qp`, which Release finds when it may send again.
  void Add(QueuePair& qp) {
    if (qp.lists().Enter(WorkerList::kHeld)) held_.push_back(&qp);
  }
  /// Calls `on_release(QueuePair&)` for those that may send again. Checks up to kMaxLooks a turn.
  template <typename OnRelease>
  bool Release(OnRelease&& on_release) {
    if (held_.empty()) return false;
    bool any = false;
    for (size_t looks = held_.size() < kMaxLooks ? held_.size() : kMaxLooks; looks != 0; --looks) {
      if (next_ >= held_.size()) next_ = 0;
      QueuePair& qp = *held_[next_];
      if (MustHold(qp)) {
        ++next_;
        continue;
      }
      held_[next_] = held_.back();
      held_.pop_back();
      qp.lists().Leave(WorkerList::kHeld);
      any = true;
      on_release(qp);
    }
    return any;
  }
  bool empty() const { return held_.empty(); }

  // ---- between turns ----
  void Reserve(size_t queue_pairs) {
    if (held_.capacity() < queue_pairs) held_.reserve(queue_pairs * 2);
  }
  void Remove(QueuePair& qp) { std::erase(held_, &qp); }

 private:
  static constexpr size_t kMaxLooks = 64;  // In one turn.

  bool IsPeerFull(const QueuePair& qp) const {
    return qp.is_peer_in_daemon() && gates_ != nullptr && gates_->IsClosed(qp.path().remote_qpn);
  }

  const ReceiveGates* const gates_;
  const WaitingPackets& waiting_;
  std::vector<QueuePair*> held_;
  size_t next_ = 0;  // Index that is checked first in the next turn.
};

/// Adds payload of a message's next packets to the copy job of one packet, since most of a job's
/// cost is time between threads, and a worker's access costs a system call. A wrong prediction is
/// dropped, and its packet is copied again. The job of one packet also holds payload of later
/// packets: it places payload of received packets that wait, and prefetches payload of packets that
/// are not yet polled. One thread.
class CopyBatches {
 public:
  CopyBatches(const KeyTable& keys, const WaitingFrames& waiting_frames, FrameStash& stash)
      : keys_(keys), waiting_frames_(waiting_frames), stash_(stash) {}

  /// Adds the payload of waiting packets to the copy job of the packet before them.
  void BatchPlacements(QueuePair& qp);
  /// Adds the payload that the message sends behind `packet` to the copy job of that packet.
  /// `for_worker`: see TakeCopied.
  void PrefetchPayload(QueuePair& qp, const transport::TxPacket& packet, bool for_worker);
  /// Called when the job of `qp` is done: keeps what it placed and prefetched for later packets.
  static void Keep(QueuePair& qp);
  /// The same for a job of `packet`, and for what it prefetched.
  static void KeepPrefetched(QueuePair& qp, const transport::TxPacket& packet);
  /// True: the payload of packet `psn` was placed before, and `effect`, which places it, is done.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn);
  /// Copies the payload of `packet`, if it was prefetched, and `icrc` takes it.
  static bool TakePrefetched(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                             RunningIcrc& icrc);
  static void Forget(QueuePair& qp);

 private:
  static void DropPrefetched(QueuePair& qp, PrefetchedPayload& prefetched);

  const KeyTable& keys_;
  const WaitingFrames& waiting_frames_;
  FrameStash& stash_;
};

/// The parts of a worker that its copy jobs use.
struct CopyContext {
  uint32_t worker = 0;
  const KeyTable& keys;
  const DevicePorts& ports;
  SessionList& sessions;
  const TurnTime& time;
};

/// Accesses copied memory: at once, where workers may (CopyHelper::DoNow), else by jobs of the
/// session's copy helper. A queue pair with a job waits: its transport is not called and its
/// packets are kept, while all other queue pairs go on. One thread.
class CopyEngine {
 public:
  CopyEngine(const CopyContext& context, const CopyBatches& batches)
      : context_(context), batches_(batches) {}

  // ---- at once; `qp` does not wait ----
  /// Moves the payload of `packet`, from mapped memory too, to the frame, and prefetches what the
  /// message sends behind it. kCopied: a job has to move the rest, from `transfer` on.
  MoveResult GatherNow(QueuePair& qp, const transport::TxPacket& packet, Transfer& transfer);
  /// Moves the bytes of `transfer` to memory, to mapped memory too. `ends_message`: see CopyJob.
  /// kCopied: as above.
  MoveResult PlaceNow(QueuePair& qp, Transfer& transfer, bool ends_message);
  /// Executes an atomic at `app_addr` of the program. kCopied: a job has to.
  MoveResult ExecuteNow(QueuePair& qp, const transport::Effect& effect, uint64_t app_addr,
                        uint64_t& original);

  // ---- `qp` waits from then on ----
  /// Submits a job for `effect` of `packet`, whose payload goes to the position of `transfer`.
  /// `frame` holds the payload and belongs to the job; null where the payload is in the job.
  void SubmitEffect(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
                    const Transfer& transfer, rte_mbuf* frame);
  /// Submits a job for an atomic at `app_addr` of the program.
  void SubmitAtomic(QueuePair& qp, const transport::Effect& effect, uint64_t app_addr);
  /// Submits a job for the payload of `packet`. `frame` holds its headers and belongs to the job.
  void SubmitGather(QueuePair& qp, const transport::TxPacket& packet, const Transfer& transfer,
                    uint32_t crc_before_payload, rte_mbuf* frame);

  /// Take what earlier jobs have done for this packet: see CopyBatches.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn) {
    return CopyBatches::TakePlaced(qp, effect, psn);
  }
  static bool TakePrefetched(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                             RunningIcrc& icrc) {
    return CopyBatches::TakePrefetched(qp, packet, payload, icrc);
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
        QueuePair* const qp = TakeBack(job, polled[i]->frames);
        if (qp != nullptr && HasEnded(*qp, result)) on_end(*qp, result);
      }
    }
    return any;
  }

  /// Forgets the job of `qp` that is under way, and what jobs have done for its later packets.
  static void Abandon(QueuePair& qp);

 private:
  static constexpr int kMaxFinished = kBurst;  // Finished jobs of a program handled per turn.

  /// Makes the job of `qp` one for an atomic.
  static void FillAtomic(CopyJob& job, const transport::Effect& effect, uint64_t app_addr);
  bool DoNow(const QueuePair& qp, CopyJob& job) const {
    return qp.receive_source().memory_session()->copy_helper()->DoNow(context_.worker, job);
  }
  /// Makes `job` one for the copied pieces that come next, as far as workers may access them.
  /// `bytes` advances with `walker`.
  void FillForWorker(CopyJob& job, CopyJob::Kind kind, PieceWalker& walker, uint8_t*& bytes) const;
  void Submit(QueuePair& qp, CopyJob::Kind kind);
  /// Puts the copied pieces that come next into the job of `qp`.
  void TakePieces(QueuePair& qp);
  bool HasReserve() const;
  /// Returns the queue pair of `job`. Null: the queue pair has gone, and the job is freed.
  static QueuePair* TakeBack(CopyJob* job, ProgramFrames& program);
  /// False: the copy of `qp` continues with another job.
  bool HasEnded(QueuePair& qp, MoveResult& result);

  const CopyContext context_;
  CopyBatches batches_;
};

}  // namespace uroce::datapath
