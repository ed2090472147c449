// SPDX-License-Identifier: Apache-2.0
// Packets that wait behind a queue pair's errand.
#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

// Where gates close: below that by what may be on the way still, from one peer and from all of a
// program, for which half of what may wait is left.
constexpr uint32_t kGateWaiting = 256;
constexpr uint32_t kGateShares = 24;

uint32_t GateLimit(uint32_t left) { return std::min(kGateWaiting, left / kGateShares); }

// Queue pairs that are held, looked at in one turn.
constexpr size_t kMaxHeldLooks = 64;

}  // namespace

// A peer whose packets are dropped resends them.
bool Worker::Impl::KeepForLater(QueuePair& qp, rte_mbuf* frame) {
  ParkedWork& parked = qp.parked();
  ProgramFrames& program = qp.links().session->frames;
  if (!waiting_frames.HasRoom(program, parked.waiting)) {
    DropWaiting(qp, frame);
    return false;
  }
  ++parked.waiting;
  WaitingFrames::Take(program);
  frame->next = nullptr;
  (parked.oldest == nullptr ? parked.oldest : parked.newest->next) = frame;
  parked.newest = frame;
  TendGate(qp);
  return true;
}

bool Worker::Impl::MayWait(QueuePair& qp) const {
  return waiting_frames.HasRoom(qp.links().session->frames) ||
         qp.memory_session()->copy_helper() == nullptr;
}

void Worker::Impl::DropWaiting(QueuePair& qp, const rte_mbuf* frame) {
  Count(qp.links().port->counters().rx_parked_full);
  RecordAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
}

void Worker::Impl::TendGate(QueuePair& qp) {
  ReceiveGates* const gates = handover.gates();
  if (gates == nullptr) return;
  ParkedWork& parked = qp.parked();
  const ProgramFrames& program = qp.links().session->frames;
  const uint32_t most = waiting_frames.Most(program) / 2;
  const uint32_t limit = GateLimit(most - std::min(most, program.waiting));
  if (!parked.gate_closed && parked.waiting > limit) {
    parked.gate_closed = true;
    gates->Close(qp.qpn());
  } else if (parked.gate_closed && parked.waiting <= limit / 2) {
    parked.gate_closed = false;
    gates->Open(qp.qpn());
  }
}

bool Worker::Impl::IsPeerFull(const QueuePair& qp) const {
  return qp.in_daemon() && handover.gates() != nullptr &&
         handover.gates()->IsClosed(qp.path().remote_qpn);
}

bool Worker::Impl::IsHeld(QueuePair& qp) {
  if (!IsPeerFull(qp) && MayWait(qp)) return false;
  HoldBack(qp);
  qp.core().OnHeld(now);
  FileTimer(qp);
  return true;
}

void Worker::Impl::HoldBack(QueuePair& qp) {
  if (!qp.links().held) held.push_back(&qp);
  qp.links().held = true;
}

bool Worker::Impl::ReleaseHeld() {
  bool any = false;
  for (size_t looks = std::min(held.size(), kMaxHeldLooks); looks != 0; --looks) {
    if (held_next >= held.size()) held_next = 0;
    QueuePair& qp = *held[held_next];
    if (IsPeerFull(qp) || !MayWait(qp)) {
      ++held_next;
      continue;
    }
    held[held_next] = held.back();
    held.pop_back();
    qp.links().held = false;
    any = true;
    Touch(qp);
    if (qp.core().HasKept()) ReplayKept(qp);
  }
  return any;
}

void Worker::Impl::ReplayWaiting(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  while (parked.oldest != nullptr && !qp.is_parked()) {
    rte_mbuf* const frame = parked.oldest;
    parked.oldest = frame->next;
    frame->next = nullptr;
    --parked.waiting;
    WaitingFrames::Give(qp.links().session->frames);
    wire::Packet packet;
    wire::FrameView view;
    const bool decoded = DecodeAgain(*frame, packet, view);
    note = NoteOf(packet);
    const bool kept = decoded && Execute(qp, packet, view, frame);
    if (!kept) rte_pktmbuf_free(frame);
  }
  TendGate(qp);
}

void Worker::Impl::AbandonParked(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  ForgetAhead(qp);
  if (parked.in_flight != nullptr) {
    parked.in_flight->owner = nullptr;  // Whoever takes it next deletes it, and its frames.
    parked.in_flight = nullptr;
    parked.job = std::make_unique<CopyJob>();
  }
  qp.links().parked = ParkedKind::kNone;
  key_waits.Remove(qp);
  parked.modification.reset();
  while (parked.oldest != nullptr) {
    rte_mbuf* const frame = parked.oldest;
    parked.oldest = frame->next;
    frame->next = nullptr;
    RecordAbandoned(qp, UROCE_REASON_ABANDONED, frame);
    rte_pktmbuf_free(frame);
    WaitingFrames::Give(qp.links().session->frames);
  }
  parked.waiting = 0;
  TendGate(qp);
}

}  // namespace uroce::datapath
