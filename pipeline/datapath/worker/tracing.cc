// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/tracing.h"

#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {
namespace {

void TraceDrop(const QueuePair& qp, const wire::Packet& packet,
               const uroce_capture_note& annotation) {
  probes::Drop(qp.qpn().value(), packet.header.psn.value(), annotation.reason, annotation.detail);
}

}  // namespace

void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::PacketResult result) {
  if (result == transport::PacketResult::kKept) return;
  uroce_capture_note annotation{};
  AddResult(qp.core().reliable(), transport::IsResponse(packet.header.opcode), result, annotation);
  TraceDrop(qp, packet, annotation);
}

void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::ReceiveResult result) {
  uroce_capture_note annotation{};
  AddResult(qp.core(), result, annotation);
  TraceDrop(qp, packet, annotation);
}

}  // namespace uroce::datapath
