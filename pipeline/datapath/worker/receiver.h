// SPDX-License-Identifier: Apache-2.0
// Gives each frame to whom it is for: a queue pair, another worker, the stack of its port, or the
// control thread. Other frames are dropped and counted.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/port/device_ports.h"
#include "pipeline/datapath/queue/qpn_table.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/admission.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/frame_recorder.h"
#include "pipeline/datapath/worker/frame_stash.h"
#include "pipeline/datapath/worker/hand_over.h"
#include "pipeline/datapath/worker/multicast.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/turn_time.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The parts of a worker that its receiver uses.
struct ReceiveContext {
  const DevicePorts& ports;
  const QpnTable& queue_pairs;
  CrossWorkerLink& cross_worker;
  FrameRecorder& recorder;
  FrameStash& stash;
  CongestionControl& congestion;
  PacketExecutor& executor;
  WorkerCounters& counters;
  const TurnTime& time;
};

/// One thread. The code that every packet passes through is inline where it is called.
class Receiver {
 public:
  explicit Receiver(const ReceiveContext& context);

  /// Takes a burst from each port, and the frames that other workers have received for this one.
  bool Receive();

 private:
  bool TakeFromOtherWorkers();
  /// True: the frame was kept, for later.
  bool OnFrame(DevicePort& port, rte_mbuf* frame);
  /// Does the same for a frame that is no RoCE packet.
  bool OnOtherFrame(DevicePort& port, rte_mbuf* frame, wire::DecodeResult decoded);
  /// Does the same for a packet to a queue pair of this worker, or to an unknown one.
  inline bool OnPacket(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                       rte_mbuf* frame);
  /// The queue pair of this number on this port, or null.
  inline QueuePair* Steer(const DevicePort& port, Qpn number) const;
  /// Handles a CNP to `qp`, or to no queue pair (null).
  void OnCnp(DevicePort& port, QueuePair* qp, const wire::Packet& packet,
             const wire::FrameView& view, const rte_mbuf* frame);
  /// Handles a packet to a queue pair that no program has: queue pair 1, or an unknown one.
  void OnStrangePacket(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                       const rte_mbuf* frame);

  const ReceiveContext context_;
  Admission admission_;
  HandOver hand_over_;
  MulticastReceiver multicast_;
};

}  // namespace uroce::datapath
