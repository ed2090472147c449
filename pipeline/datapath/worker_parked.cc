// SPDX-License-Identifier: Apache-2.0
// Packets that wait behind a queue pair's errand.
#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

// Packets behind one parked queue pair, and behind all: a peer whose packets are dropped resends
// them, but frames that never come back would stop everybody.
constexpr uint32_t kMaxWaiting = 512;
constexpr uint32_t kMaxWaitingOfAll = 4096;

// As many as are left to all, at most: those that wait for long leave room for others.
uint32_t MostWaiting(uint32_t of_all) { return std::min(kMaxWaiting, kMaxWaitingOfAll - of_all); }

// Where gates close: below that by what may be on the way still, from one peer and from all.
constexpr uint32_t kGateWaiting = 256;
constexpr uint32_t kGateWaitingOfAll = 3072;
constexpr uint32_t kGateShares = 8;

uint32_t GateLimit(uint32_t of_all) {
  const uint32_t left = kGateWaitingOfAll - std::min(of_all, kGateWaitingOfAll);
  return std::min(kGateWaiting, left / kGateShares);
}

}  // namespace

bool Worker::Impl::KeepForLater(QueuePair& qp, rte_mbuf* frame) {
  ParkedWork& parked = qp.parked();
  if (parked.waiting >= MostWaiting(frames_waiting)) {
    Count(qp.links().port->counters().rx_parked_full);
    RecordAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
    return false;
  }
  ++parked.waiting;
  ++frames_waiting;
  frame->next = nullptr;
  (parked.oldest == nullptr ? parked.oldest : parked.newest->next) = frame;
  parked.newest = frame;
  TendGate(qp);
  return true;
}

void Worker::Impl::TendGate(QueuePair& qp) {
  ReceiveGates* const gates = handover.gates();
  if (gates == nullptr) return;
  ParkedWork& parked = qp.parked();
  const uint32_t limit = GateLimit(frames_waiting);
  if (!parked.gate_closed && parked.waiting > limit) {
    parked.gate_closed = true;
    gates->Close(qp.qpn());
  } else if (parked.gate_closed && parked.waiting <= limit / 2) {
    parked.gate_closed = false;
    gates->Open(qp.qpn());
  }
}

bool Worker::Impl::IsHeld(QueuePair& qp) {
  if (!qp.links().in_daemon || handover.gates() == nullptr) return false;
  if (!handover.gates()->IsClosed(qp.path().remote_qpn)) return false;
  if (!qp.links().held) held.push_back(&qp);
  qp.links().held = true;
  qp.core().OnHeld(now);
  FileTimer(qp);
  return true;
}

bool Worker::Impl::ReleaseHeld() {
  const size_t before = held.size();
  std::erase_if(held, [this](QueuePair* qp) {
    if (handover.gates()->IsClosed(qp->path().remote_qpn)) return false;
    qp->links().held = false;
    Touch(*qp);
    return true;
  });
  return held.size() != before;
}

void Worker::Impl::ReplayWaiting(QueuePair& qp) {
  ParkedWork& parked = qp.parked();
  while (parked.oldest != nullptr && !qp.is_parked()) {
    rte_mbuf* const frame = parked.oldest;
    parked.oldest = frame->next;
    frame->next = nullptr;
    --parked.waiting;
    --frames_waiting;
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
    --frames_waiting;
  }
  parked.waiting = 0;
  TendGate(qp);
}

}  // namespace uroce::datapath
