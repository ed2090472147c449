// SPDX-License-Identifier: Apache-2.0
// Gives admitted packets to the transport of their queue pair, at once or when it is their turn,
// and continues queue pairs that had to wait.
#pragma once

#include <rte_mbuf.h>

#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/state_changes.h"
#include "pipeline/datapath/worker/transmitter.h"
#include "pipeline/port/frames.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/superframe.h"

namespace uroce::datapath {

/// The parts of a worker that its executor uses.
struct ExecuteContext {
  Effects& effects;
  FrameRecorder& recorder;
  HeldSenders& held;
  KeptFramePool& kept_frames;
  ReadyLists& ready;
  StateChanges& states;
  WaitingPackets& waiting_packets;
  const TurnTime& time;
};

/// Gives an admitted packet to its queue pair's transport, and executes the effects it asks for.
/// One thread. The code that every packet passes through is inline, here or where it is called.
class PacketExecutor {
 public:
  explicit PacketExecutor(const ExecuteContext& context) : context_(context) {}

  /// Shows a received packet to the transport of `qp`. When `qp` waits, the packet is kept instead.
  /// True: the frame was kept, for later or by a copy job.
  bool Receive(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
               rte_mbuf* frame) {
    ++qp.traffic().received_packets;
    qp.traffic().received_bytes += frame->data_len;
    if (qp.is_waiting()) {
      if (!qp.waiting().is_due) {
        references_.Settle(*frame);
      } else if (references_.IsSet(*frame)) {
        qp.waiting().refers = true;
      }
      return context_.waiting_packets.Keep(qp, frame);
    }
    if (MayCopy(packet) && !context_.waiting_packets.MayWait(qp)) [[unlikely]] {
      context_.waiting_packets.Drop(qp, frame);
      return false;
    }
    return Execute(qp, packet, view, frame, Showing::kFirst);
  }
  /// Executes the packets of `run` as one, of which `first` is the first one: packets of a
  /// superframe that follow each other in one message. False: nothing has changed, and Receive
  /// takes each of them.
  bool ReceiveRun(QueuePair& qp, const wire::Packet& first, const wire::SegmentRun& run,
                  uint32_t frame_bytes);
  /// Shows the transport those packets behind a missing one whose turn has come.
  void ReplayKept(QueuePair& qp) {
    if (qp.core().HasKept()) [[unlikely]]
      ReplaySomeKept(qp);
  }
  /// Shows the transport the packets that waited behind a copy, until one makes `qp` wait again.
  void ReplayWaiting(QueuePair& qp);

 private:
  /// Whether the packet may need a copy job.
  static bool MayCopy(const wire::Packet& packet) {
    return !packet.payload.empty() ||
           wire::InfoOf(packet.header.opcode).Has(wire::OpcodeInfo::kAtomic);
  }
  /// True: the frame was kept.
  bool Execute(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
               rte_mbuf* frame, Showing showing);
  inline bool ExecuteReliable(QueuePair& qp, const wire::Packet& packet, transport::SrqAccess srq,
                              rte_mbuf* frame, Showing showing);
  bool ExecuteUnreliable(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                         rte_mbuf* frame);
  /// Shows the transport a frame that was kept. Frees the frame unless it is kept again.
  void ExecuteAgain(QueuePair& qp, rte_mbuf* frame, Showing showing);
  void ReplaySomeKept(QueuePair& qp);
  /// Hands the transport the receive work that a packet needs. False: the queue is corrupt.
  static inline bool GiveReceive(QueuePair& qp, const wire::TransportHeader& header);
  /// Makes an XRC target use the shared queue that a request names.
  static transport::SrqAccess SelectQueue(QueuePair& qp, const wire::TransportHeader& header);

  const ExecuteContext context_;
  const PayloadReference references_;
};

// Continues queue pairs whose copy has ended, whose taken-back key no worker uses any more, whose
// turn has come again, or that may send again.

/// The parts of a worker that resumption uses.
struct ResumeContext {
  CopyEngine& copies;
  Effects& effects;
  HeldSenders& held;
  KeyChanges& key_changes;
  PacketExecutor& executor;
  ReadyLists& ready;
  StateChanges& states;
  Transmitter& transmitter;
};

/// One thread. Each step returns whether there was something to do.
class Resumption {
 public:
  explicit Resumption(const ResumeContext& context) : context_(context) {}

  bool FinishCopies() {
    return context_.copies.TakeFinished(
        [this](QueuePair& qp, MoveResult result) { FinishCopy(qp, result); });
  }
  /// Called before the turn ends: payload may lie where it is until then.
  bool FinishDueCopies() {
    return context_.copies.FinishDue(
        [this](QueuePair& qp, MoveResult result) { FinishCopy(qp, result); });
  }
  bool EndKeyWaits() {
    return context_.key_changes.TakeEnded([this](QueuePair& qp) { GoOn(qp); });
  }
  bool TakePostponed() {
    return context_.ready.TakePostponed(
        [this](QueuePair& qp) { context_.executor.ReplayKept(qp); });
  }
  bool ReleaseHeld() {
    return context_.held.Release([this](QueuePair& qp) {
      context_.ready.Touch(qp);
      context_.executor.ReplayKept(qp);
    });
  }

 private:
  void FinishCopy(QueuePair& qp, MoveResult result);
  /// Called when `qp` waits no more: does what was postponed until then.
  void GoOn(QueuePair& qp);

  const ResumeContext context_;
};

}  // namespace uroce::datapath
