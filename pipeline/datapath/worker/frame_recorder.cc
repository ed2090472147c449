// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/frame_recorder.h"

#include <vector>

#include "pipeline/datapath/frames/received_frame.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {

using transport::QpState;

void FrameRecorder::RemoveTap(CaptureTap* tap) {
  tap->Publish(kNever);
  std::erase(taps_.list, tap);
}

void FrameRecorder::RecordResult(QueuePair& qp, const wire::Packet& packet,
                                 transport::PacketResult result, bool had_failed,
                                 const rte_mbuf* frame, Showing showing) {
  const bool fails = !had_failed && qp.core().state() == QpState::kErr;
  if (showing == Showing::kAgain && !fails) return;
  if (result != transport::PacketResult::kAccepted) {
    AddResult(qp.core().reliable(), transport::IsResponse(packet.header.opcode), result,
              annotation_);
  }
  if (fails) AddFailure(qp.core().reliable(), annotation_);
  RecordWithHistory(qp, frame);
}

void FrameRecorder::RecordUnreliable(QueuePair& qp, transport::ReceiveResult result,
                                     const rte_mbuf* frame) {
  if (result != transport::ReceiveResult::kAccepted) AddResult(qp.core(), result, annotation_);
  RecordWithHistory(qp, frame);
}

void FrameRecorder::RecordBadState(QueuePair& qp, const rte_mbuf* frame) {
  SetReason(UROCE_REASON_BAD_STATE, static_cast<uint8_t>(qp.core().state()));
  RecordWithHistory(qp, frame);
}

void FrameRecorder::RecordAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame) {
  probes::Drop(qp.qpn().value(), 0, reason, 0);
  if (taps_.list.empty()) return;
  annotation_ = {};
  annotation_.reason = reason;
  annotation_.qpn = qp.qpn().value();
  Record(*qp.links().port, frame);
}

void FrameRecorder::RecordWithHistory(QueuePair& qp, const rte_mbuf* frame) {
  if (qp.history() != nullptr) AddToHistory(qp, UROCE_CAPTURE_INBOUND, frame, annotation_);
  Record(*qp.links().port, frame);
}

void FrameRecorder::AddToHistory(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                                 const uroce_capture_note& annotation) {
  pending_.Fill(*frame);
  qp.history()->Add(direction, BytesOf(*frame), taps_.clock.Wall(), annotation);
}

}  // namespace uroce::datapath
