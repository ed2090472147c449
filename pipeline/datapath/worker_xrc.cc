// SPDX-License-Identifier: Apache-2.0
// What XRC targets do otherwise than other queue pairs: the request says whose receives, keys and
// completion queue it means, and these may be gone while the queue pair lives.
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {

// A message keeps to one queue: the transport sees to that.
bool Worker::Impl::SelectQueue(QueuePair& qp, const wire::TransportHeader& header) {
  if (transport::IsResponse(header.opcode)) return true;  // Dropped: a target asks for nothing.
  if (qp.SelectShared(header.xrc_srqn)) return true;
  qp.core().reliable().DenySrq();
  return false;
}

// To the peer it is as if the queue had gone before its next packet (docs/protocol/transport.md,
// section 11).
void Worker::Impl::LeaveQueue(QueuePair& qp, const SharedReceiveQueue& queue) {
  const uint32_t number = queue.config().number;
  const bool is_selected = qp.shared() == &queue;
  const bool is_parked = qp.is_parked() && is_selected;
  const bool has_receive = qp.core().reliable().receive_queue() == number;
  if (is_parked) FailParked(qp);
  if (has_receive && qp.core().state() != transport::QpState::kErr) {
    Modify(&qp, transport::QpState::kErr, qp.core().attributes(), nullptr);
  }
  if (is_selected) static_cast<void>(qp.SelectShared(number));  // There is none any more.
}

void Worker::Impl::FailParked(QueuePair& qp) {
  const ParkedKind kind = qp.links().parked;
  const transport::TxPacket packet = qp.parked().packet;
  const transport::Effect effect = qp.parked().effect;
  AbandonParked(qp);
  switch (kind) {
    case ParkedKind::kNone:
      break;
    case ParkedKind::kEffect:
      FinishEffect(qp, effect, MoveResult::kDenied, 0);
      break;
    case ParkedKind::kInvalidate:
      qp.core().OnEffectDone(transport::EffectOutcome::kInvalidateFailed, 0, now);
      break;
    case ParkedKind::kGather:
      qp.core().OnGatherFailed(packet, now);
      break;
  }
  Touch(qp);
}

}  // namespace uroce::datapath
