// SPDX-License-Identifier: Apache-2.0
// Jobs of the session's copy helper, from submission to their end. A queue pair with one waits: its
// transport is not called and its packets wait, all others go on.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <vector>

#include "pipeline/datapath/copy/payload.h"
#include "pipeline/datapath/memory/access.h"
#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/queue/session_list.h"
#include "pipeline/datapath/queue/waiting_work.h"
#include "pipeline/datapath/worker/copy_batches.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// What the copy jobs of one worker work with.
struct CopyContext {
  uint32_t worker = 0;
  const KeyTable& keys;
  const DevicePorts& ports;
  SessionList& sessions;
  const TurnTime& time;
};

/// One thread.
class CopyEngine {
 public:
  CopyEngine(const CopyContext& context, const CopyBatches& batches)
      : context_(context), batches_(batches) {}

  // ---- `qp` waits from then on ----
  /// For `effect` of `packet`, whose payload goes where `transfer` stands. `frame` holds the
  /// payload and is the job's; null where the payload is in the job.
  void SubmitEffect(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
                    const Transfer& transfer, rte_mbuf* frame);
  /// For an atomic at `app_addr` of the program.
  void SubmitAtomic(QueuePair& qp, const transport::Effect& effect, uint64_t app_addr);
  /// For the payload of `packet`, whose headers are in `frame`; that is the job's.
  void SubmitGather(QueuePair& qp, const transport::TxPacket& packet, const Transfer& transfer,
                    uint32_t crc_before_payload, rte_mbuf* frame);

  /// What earlier jobs have done already: see CopyBatches.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn) {
    return CopyBatches::TakePlaced(qp, effect, psn);
  }
  static bool TakePrefetched(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                             uint32_t& crc) {
    return CopyBatches::TakePrefetched(qp, packet, payload, crc);
  }

  /// Calls `on_end(QueuePair&, MoveResult)` for each queue pair whose bytes have all been moved, or
  /// cannot be. It waits still, for what is to be done then. Some in each turn, as far as there is
  /// room for the packets that may leave.
  template <typename OnEnd>
  bool TakeFinished(OnEnd&& on_end) {
    bool any = false;
    // By index: who is touched may be polled again, and is added. One that waits has no copies.
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

  /// Forgets what is under way for `qp`, and what was done before for packets to come.
  static void Abandon(QueuePair& qp);

 private:
  static constexpr int kMaxFinished = kBurst;  // Jobs whose end is handled in one turn.

  void Submit(QueuePair& qp, CopyJob::Kind kind);
  /// Puts the copied pieces that come next into the job.
  void TakePieces(QueuePair& qp);
  bool HasReserve() const;
  /// Whose `job` was; null: it has gone, and the job with it.
  static QueuePair* TakeBack(CopyJob* job, ProgramFrames& program);
  /// False: it goes on with another job.
  bool HasEnded(QueuePair& qp, MoveResult& result);

  const CopyContext context_;
  CopyBatches batches_;
};

}  // namespace uroce::datapath
