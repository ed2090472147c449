// SPDX-License-Identifier: Apache-2.0
// Sends packets of the transports to the ports: acknowledgements first, then fair in bytes.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/direct_delivery.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/port/frames.h"

namespace uroce::datapath {

/// The parts of a worker that its transmitter uses.
struct TransmitContext {
  const KeyTable& keys;
  const DevicePorts& ports;
  CrossWorkerLink& cross_worker;
  FrameStash& stash;
  CongestionControl& congestion;
  CopyEngine& copies;
  DirectDelivery& direct;
  HeldSenders& held;
  QueuePairTimers& timers;
  ReadyLists& ready;
  FrameRecorder& recorder;
  const TurnTime& time;
};

/// One thread. The code that every packet passes through is inline where it is called.
class Transmitter {
 public:
  explicit Transmitter(const TransmitContext& context) : context_(context) {}

  /// Sends what there is to send, a burst for each port. Queue pairs that have sent are touched.
  bool Transmit();
  /// Sends all answers that `qp` owes.
  void AcknowledgeAll(QueuePair& qp) {
    while (Acknowledge(qp)) continue;
  }
  /// Sends a packet of `qp` out of turn, if it has one and there is room.
  void SendOne(QueuePair& qp);
  /// The copy job of the packet that `qp` waits for is done: sends the packet, or fails its work.
  void FinishGather(QueuePair& qp, MoveResult result);

 private:
  /// kJoined: a packet in a superframe that was queued before.
  enum class Sent : uint8_t { kPacket, kJoined, kNothing, kHeld, kWaits, kFailed, kNoFrame };

  /// Sends the next answer that `qp` owes, if the answer is one packet. False: nothing was sent.
  bool Acknowledge(QueuePair& qp);
  /// Sends what is queued for one port by its stack, other workers and this worker's queue pairs.
  bool ServePort(DevicePort& port);
  bool ServeQueuePairs(DevicePort& port);
  /// Sends what a stack has queued, to queue pair `destination` if it is RoCE.
  bool ServeLink(DevicePort& port, FrameLink& link, Qpn destination);
  /// Whether `qp` must not send now. A held queue pair is looked after when it may send again.
  bool IsHeld(QueuePair& qp) {
    if (!context_.held.MustHold(qp)) [[likely]]
      return false;
    Hold(qp);
    return true;
  }
  void Hold(QueuePair& qp);
  /// Whether frames of `qp` need no ICRC: they stay in the daemon, and no capture records them.
  bool LeavesIcrcOut(const QueuePair& qp) const {
    return qp.port().leaves_icrc_out() && !context_.recorder.IsRecorded(qp);
  }
  /// Lets the next packet of `qp` wait for its send time.
  void Pace(QueuePair& qp);
  /// Sends the next packet of `qp`. `bytes`, which is 0 before, is its size if there was one.
  /// `joins_run`: behind one that joins a superframe, those that JoinRun sends.
  Sent SendNext(QueuePair& qp, uint32_t& bytes, bool joins_run = false);
  /// Gives a packet to `peer`, of this worker, without a frame where it needs none. `frame` has the
  /// length that it would have.
  Sent Deliver(QueuePair& qp, QueuePair& peer, transport::TxPacket& packet, rte_mbuf* frame);
  /// Sends a packet in `frame`, or in the superframe that `qp` has open.
  Sent Build(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame);
  /// Reads the payload of a packet from the program's memory into `frame`, behind the headers.
  inline Sent GatherPayload(QueuePair& qp, const transport::TxPacket& packet,
                            const RunningIcrc& icrc_of_headers, rte_mbuf* frame);
  /// Continues GatherPayload in copied memory. kCopied: a job has to move the rest.
  MoveResult GatherCopied(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                          Transfer& transfer, RunningIcrc& icrc);
  /// Whether packets of `qp` may leave in superframes, which have no tag.
  bool MayJoin(const QueuePair& qp) const {
    return qp.port().TakesSuperframes() && qp.core().is_reliable() &&
           qp.header_template().ip_offset() == wire::UdpFrame::kIpOffset &&
           qp.peer() != PeerPlace::kSameDevice && !context_.recorder.IsRecorded(qp);
  }
  /// Writes a packet behind the others of the superframe that `qp` has open. `frame` has the length
  /// that its own frame would have, and is not used. False: the packet needs its own frame.
  bool Join(QueuePair& qp, const transport::TxPacket& packet, const wire::HeaderTemplate& path,
            rte_mbuf* frame);
  /// Writes packets that follow `packet` in its message behind it, which has joined a superframe,
  /// as many as `qp` may send before others; a frame of each would have `frame_bytes`. Returns how
  /// many bytes those frames would have.
  uint32_t JoinRun(QueuePair& qp, const transport::TxPacket& packet, uint32_t frame_bytes);
  /// Writes `run` behind the other packets of `open`. `memory` has the payload.
  static void WriteRun(const OpenSuperframes::Open& open, const wire::HeaderTemplate& path,
                       const transport::TxPacket& packet, const transport::TxRun& run,
                       MappedRun& memory);
  Sent FailGather(QueuePair& qp, const transport::TxPacket& packet);
  Sent RefuseAddress(QueuePair& qp);
  /// Writes what is behind the payload of `frame`, which holds its headers, and returns how many
  /// bytes that is.
  inline size_t PutTrailer(rte_mbuf& frame, uint32_t payload_bytes, const RunningIcrc& icrc);
  void FinishFrame(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame,
                   const RunningIcrc& icrc);
  /// Completes the frame of an unacknowledged service's packet. True: it is for this device.
  bool FinishUnreliable(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame);
  /// Gives what the sender sends to the members of the group on its own device.
  void LoopBack(QueuePair& qp, const AddressVector* vector, const rte_mbuf& frame);

  const TransmitContext context_;
  const drivers::PendingIcrc pending_;
};

}  // namespace uroce::datapath
