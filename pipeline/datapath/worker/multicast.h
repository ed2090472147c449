// SPDX-License-Identifier: Apache-2.0
// Receives datagrams to multicast groups (docs/protocol/transport.md, section 10). Each member gets
// its own copy, since the bytes written in front of the payload overwrite the headers.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/admission.h"
#include "pipeline/datapath/worker/frame_recorder.h"
#include "pipeline/datapath/worker/frame_stash.h"
#include "pipeline/datapath/worker/hand_over.h"
#include "pipeline/datapath/worker/multicast_mark.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The parts of a worker that its receiver of multicast packets uses.
struct MulticastContext {
  uint32_t worker = 0;
  Admission& admission;
  FrameRecorder& recorder;
  FrameStash& stash;
  HandOver& hand_over;
  PacketExecutor& executor;
};

/// One thread.
class MulticastReceiver {
 public:
  explicit MulticastReceiver(const MulticastContext& context) : context_(context) {}

  /// Gives a packet to the group's members of this worker, and copies of it to the other workers.
  /// The caller keeps the frame.
  void Receive(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
               const rte_mbuf* frame);

 private:
  void GiveToOthers(DevicePort& port, const wire::Packet& packet, const rte_mbuf* frame);
  void DeliverToMembers(DevicePort& port, const wire::Packet& packet, const rte_mbuf* frame);
  void Deliver(QueuePair& qp, rte_mbuf* copy);
  /// Returns a copy that is not recorded again. Null: there is no frame, which is counted.
  rte_mbuf* Copy(DevicePort& port, const rte_mbuf& frame);

  const MulticastContext context_;
  const MulticastMark mark_;
};

}  // namespace uroce::datapath
