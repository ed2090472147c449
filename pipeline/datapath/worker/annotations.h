// SPDX-License-Identifier: Apache-2.0
// Turns what the transport says of packets into the annotations of captures. Values alone.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The annotation of a frame that is not a packet.
uroce_capture_note AnnotationOf(wire::DecodeResult result);
/// The annotation of a packet that has just arrived: its queue pair and its congestion mark.
uroce_capture_note AnnotationOf(const wire::Packet& packet);
/// Adds the reason why `packet` is sent again, or that it is a NAK.
void AddReason(const transport::TxPacket& packet, uroce_capture_note& annotation);
/// The annotation of a packet that `local` sends.
inline uroce_capture_note AnnotationOf(const transport::TxPacket& packet, Qpn local) {
  uroce_capture_note annotation{.qpn = local.value(), .psn = packet.header.psn.value()};
  const bool is_plain = packet.header.opcode != wire::Opcode::kAcknowledge;
  if (packet.retransmission || !is_plain) AddReason(packet, annotation);
  return annotation;
}
/// Completes the annotation of a request or response that `core` was shown, with `result`, the
/// answer of `core`.
void AddResult(const transport::RcQueuePair& core, bool is_response, transport::PacketResult result,
               uroce_capture_note& annotation);
/// Does the same for a packet of a UC or UD queue pair.
void AddResult(const QueuePairCore& core, transport::ReceiveResult result,
               uroce_capture_note& annotation);
/// Adds that the packet put the queue pair in error.
void AddFailure(const transport::RcQueuePair& core, uroce_capture_note& annotation);

}  // namespace uroce::datapath
