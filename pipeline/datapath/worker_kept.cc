// SPDX-License-Identifier: Apache-2.0
// Packets behind a hole: kept when the transport asks for it, and given back in their turn.
#include <rte_mbuf.h>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

// Packets of one queue pair given back at a time: the others wait meanwhile.
constexpr int kMaxReplayed = 64;

}  // namespace

bool Worker::Impl::Keep(QueuePair& qp, wire::Psn psn, rte_mbuf* frame) {
  const bool kept = kept_frames.Keep(qp.kept(), qp.links().session->frames, psn, frame);
  if (!kept) Count(qp.links().port->counters().rx_kept_full);
  qp.core().OnEffectDone(
      kept ? transport::EffectOutcome::kDone : transport::EffectOutcome::kNotKept, 0, now);
  return kept;
}

void Worker::Impl::ReplayKept(QueuePair& qp) {
  wire::Psn psn;
  for (int replayed = 0; replayed < kMaxReplayed; ++replayed) {
    if (qp.is_parked()) return;
    if (!MayWait(qp)) return HoldBack(qp);
    if (!qp.core().reliable().PollKept(psn)) return;
    rte_mbuf* const frame = kept_frames.Take(qp.kept(), qp.links().session->frames, psn);
    wire::Packet packet;
    wire::FrameView view;
    if (frame == nullptr) continue;  // A hostile peer's: one READ's responses within another's.
    const bool decoded = DecodeAgain(*frame, packet, view);
    note = NoteOf(packet);
    if (!decoded || !Execute(qp, packet, view, frame, Showing::kAgain)) rte_pktmbuf_free(frame);
  }
  if (qp.core().reliable().HasKept()) Postpone(qp);
}

void Worker::Impl::DropKept(QueuePair& qp) {
  if (!qp.kept().any()) return;
  kept_frames.Drop(qp.kept(), qp.links().session->frames);
}

}  // namespace uroce::datapath
