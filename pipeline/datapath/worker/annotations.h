// SPDX-License-Identifier: Apache-2.0
// From what the transport says of packets to the annotations that captures carry. Values alone.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The annotation of a frame that is no packet.
uroce_capture_note AnnotationOf(wire::DecodeResult result);
/// The annotation of a packet that has just arrived: its queue pair and its congestion mark.
uroce_capture_note AnnotationOf(const wire::Packet& packet);
/// The reason why `packet` is sent again, or that it is a NAK.
void AddReason(const transport::TxPacket& packet, uroce_capture_note& annotation);
/// The annotation of a packet that `local` sends.
inline uroce_capture_note AnnotationOf(const transport::TxPacket& packet, Qpn local) {
  uroce_capture_note annotation{.qpn = local.value(), .psn = packet.header.psn.value()};
  const bool is_plain = packet.header.opcode != wire::Opcode::kAcknowledge;
  if (packet.retransmission || !is_plain) AddReason(packet, annotation);
  return annotation;
}
/// Completes the annotation of a request, or response, that `core` has just had and made `result`
/// of.
void AddResult(const transport::RcQueuePair& core, bool is_response, transport::PacketResult result,
               uroce_capture_note& annotation);
/// The same of a packet for a UC or UD queue pair.
void AddResult(const QueuePairCore& core, transport::ReceiveResult result,
               uroce_capture_note& annotation);
/// The packet was the end of the connection.
void AddFailure(const transport::RcQueuePair& core, uroce_capture_note& annotation);

}  // namespace uroce::datapath
