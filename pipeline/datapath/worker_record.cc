// SPDX-License-Identifier: Apache-2.0
// What captures are told of frames, once it is known what became of them.
#include <rte_mbuf.h>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {

using transport::QpState;

void Worker::Impl::Record(DevicePort& port, const rte_mbuf* frame) {
  if (taps.list.empty()) return;
  taps.Add(port.device().index(), UROCE_CAPTURE_INBOUND, frame, now, note);
}

void Worker::Impl::RecordResult(QueuePair& qp, const wire::Packet& packet,
                                transport::PacketResult result, bool had_failed,
                                const rte_mbuf* frame) {
  if (taps.list.empty()) return;
  AddResult(qp.core(), transport::IsResponse(packet.header.opcode), result, note);
  if (!had_failed && qp.core().state() == QpState::kErr) AddFailure(qp.core(), note);
  Record(*qp.links().port, frame);
}

void Worker::Impl::RecordAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame) {
  if (taps.list.empty()) return;
  note = {};
  note.reason = reason;
  note.qpn = qp.qpn().value();
  Record(*qp.links().port, frame);
}

}  // namespace uroce::datapath
