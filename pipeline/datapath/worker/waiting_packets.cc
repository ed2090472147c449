// SPDX-License-Identifier: Apache-2.0
// Packets behind a queue pair that waits for a copy, and queue pairs that must not send because
// their peer has too many of these.
#include "pipeline/datapath/worker/waiting_packets.h"

#include <algorithm>

#include "pipeline/datapath/queue/waiting_work.h"

namespace uroce::datapath {
namespace {

// Gates close at these limits, which are below those of waiting frames by what may still be on the
// way: from one peer, and from all peers of a program, for which half of the limit is left.
constexpr uint32_t kGateWaiting = 256;
constexpr uint32_t kGateShares = 24;

uint32_t GateLimit(uint32_t left) { return std::min(kGateWaiting, left / kGateShares); }

}  // namespace

// A peer whose packets are dropped resends them.
bool WaitingPackets::Keep(QueuePair& qp, rte_mbuf* frame) {
  WaitingWork& waiting = qp.waiting();
  ProgramFrames& program = qp.program().frames;
  if (!frames_.HasRoom(program, waiting.packets)) {
    Drop(qp, frame);
    return false;
  }
  ++waiting.packets;
  WaitingFrames::Take(program);
  frame->next = nullptr;
  (waiting.oldest == nullptr ? waiting.oldest : waiting.newest->next) = frame;
  waiting.newest = frame;
  TendGate(qp);
  return true;
}

void WaitingPackets::Drop(QueuePair& qp, const rte_mbuf* frame) {
  Count(qp.port().counters().rx_parked_full);
  recorder_.OnAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
}

rte_mbuf* WaitingPackets::Take(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  rte_mbuf* const frame = waiting.oldest;
  if (frame == nullptr) return nullptr;
  waiting.oldest = frame->next;
  frame->next = nullptr;
  --waiting.packets;
  WaitingFrames::Give(qp.program().frames);
  return frame;
}

void WaitingPackets::TendGate(QueuePair& qp) {
  if (gates_ == nullptr) return;
  WaitingWork& waiting = qp.waiting();
  const ProgramFrames& program = qp.program().frames;
  const uint32_t most = frames_.Most(program) / 2;
  const uint32_t limit = GateLimit(most - std::min(most, program.waiting));
  if (!waiting.gate_closed && waiting.packets > limit) {
    waiting.gate_closed = true;
    gates_->Close(qp.qpn());
  } else if (waiting.gate_closed && waiting.packets <= limit / 2) {
    waiting.gate_closed = false;
    gates_->Open(qp.qpn());
  }
}

void WaitingPackets::Abandon(QueuePair& qp) {
  for (rte_mbuf* frame = Take(qp); frame != nullptr; frame = Take(qp)) {
    recorder_.OnAbandoned(qp, UROCE_REASON_ABANDONED, frame);
    rte_pktmbuf_free(frame);
  }
  TendGate(qp);
}

}  // namespace uroce::datapath
