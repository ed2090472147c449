// SPDX-License-Identifier: Apache-2.0
// Memory accesses and changes of keys that the transport asks for.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/grace_periods.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/port/frames.h"
#include "pipeline/wire/superframe.h"

namespace uroce::datapath {

/// Executes works and packets that bind windows and take keys back. A work or packet that takes a
/// key back ends when no worker uses the key any more. One thread.
class KeyChanges {
 public:
  /// `grace` is null when the daemon has one worker.
  KeyChanges(const KeyTable& keys, GracePeriods* grace, ReadyLists& ready, const TurnTime& time)
      : keys_(keys), ready_(ready), time_(time), waits_(grace) {}

  /// Executes the works of `qp` that bind windows or take keys back and whose turn it is.
  void ExecuteLocals(QueuePair& qp);
  /// Takes back the key that a message names. Ends the message's effect, now or after a wait.
  void InvalidateForPeer(QueuePair& qp, Rkey rkey);
  /// Ends the works and effects whose keys no worker uses any more. Calls `on_end(QueuePair&)` for
  /// each queue pair that waits no more.
  template <typename OnEnd>
  bool TakeEnded(OnEnd&& on_end) {
    if (waits_.empty()) return false;
    bool any = false;
    waits_.TakeEnded([&](QueuePair& qp, KeyWaits::Waiting waiting) {
      any = true;
      if (waiting == KeyWaits::Waiting::kWork) {
        qp.core().OnLocalDone(transport::EffectOutcome::kDone);
        ready_.Touch(qp);
        return;
      }
      qp.set_wait(WaitKind::kNone);
      qp.core().OnEffectDone(transport::EffectOutcome::kDone, 0, time_.now());
      on_end(qp);
    });
    return any;
  }
  void Remove(const QueuePair& qp) { waits_.Remove(qp); }
  bool empty() const { return waits_.empty(); }

 private:
  const KeyTable& keys_;
  ReadyLists& ready_;
  const TurnTime& time_;
  KeyWaits waits_;
};

/// Executes the effects that the transport asks for on memory: at once where the memory is mapped,
/// by the session's copy helper where it is not. One thread.
class Effects {
 public:
  Effects(const KeyTable& keys, CopyEngine& copies, KeyChanges& key_changes,
          KeptFramePool& kept_frames, const TurnTime& time)
      : keys_(keys),
        copies_(copies),
        key_changes_(key_changes),
        kept_frames_(kept_frames),
        time_(time) {}

  /// Begins the effect of `packet`, which is in `frame`. True: the effect has ended, or `qp` waits
  /// and needs no frame. False: the frame is kept, or `qp` waits and the frame is the copy job's.
  bool Start(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
             rte_mbuf* frame);
  /// Executes the effect of several packets (RcQueuePair::PlanRun) at once. False: it did nothing,
  /// since the peer lacks the right, or the worker itself cannot reach the memory now.
  /// `payload` is that of the first one.
  bool PlaceRun(const QueuePair& qp, const transport::Effect& effect,
                std::span<const uint8_t> payload, const wire::SegmentRun& run);
  /// Called when the bytes of `effect` were moved, or could not be. `original`: the value that an
  /// atomic found. `qp` may wait afterwards, for the end of a key.
  void Finish(QueuePair& qp, const transport::Effect& effect, MoveResult result, uint64_t original);

 private:
  /// Whether the peer has the right to the whole message that `effect` checks before it begins.
  bool IsGranted(const QueuePair& qp, const transport::Effect& effect) const;
  /// Copies the payload of `frame`, which is elsewhere, into it. `transfer` goes on there.
  void TakeIntoFrame(rte_mbuf& frame, Transfer& transfer) const;
  bool StartAtomic(QueuePair& qp, const transport::Effect& effect);
  /// Keeps a packet that came behind a missing one. False: there is no room.
  bool Keep(QueuePair& qp, wire::Psn psn, rte_mbuf* frame);

  const KeyTable& keys_;
  CopyEngine& copies_;
  KeyChanges& key_changes_;
  KeptFramePool& kept_frames_;
  const TurnTime& time_;
  const PayloadReference references_;
};

}  // namespace uroce::datapath
