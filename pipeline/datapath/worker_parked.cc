// SPDX-License-Identifier: Apache-2.0
// Packets that wait behind a queue pair's errand.
#include <rte_mbuf.h>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

// Packets behind one parked queue pair, and behind all: a peer whose packets are dropped resends
// them, but frames that never come back would stop everybody.
constexpr uint32_t kMaxWaiting = 512;
constexpr uint32_t kMaxWaitingOfAll = 4096;

}  // namespace

bool Worker::Impl::KeepForLater(QueuePair& qp, rte_mbuf* frame) {
  ParkedWork& parked = qp.parked();
  if (parked.waiting == kMaxWaiting || frames_waiting == kMaxWaitingOfAll) {
    Count(qp.links().port->counters().rx_parked_full);
    RecordAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
    return false;
  }
  ++parked.waiting;
  ++frames_waiting;
  frame->next = nullptr;
  (parked.oldest == nullptr ? parked.oldest : parked.newest->next) = frame;
  parked.newest = frame;
  return true;
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
}

}  // namespace uroce::datapath
