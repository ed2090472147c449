// SPDX-License-Identifier: Apache-2.0
// Works and packets that bind windows and take keys back.
#include "pipeline/datapath/window_works.h"
#include "pipeline/datapath/worker_impl.h"

namespace uroce::datapath {
namespace {

using transport::EffectOutcome;
using transport::LocalEffect;

// A work that fails is told by any outcome but kDone.
EffectOutcome OutcomeOf(const WindowChange& change) {
  return change.done ? EffectOutcome::kDone : EffectOutcome::kInvalidateFailed;
}

WindowChange Perform(const KeyTable& keys, const QueuePair& qp, const LocalEffect& effect) {
  const uint32_t pd = qp.config().pd;
  if (effect.kind == LocalEffect::Kind::kInvalidate) {
    return InvalidateWindow(keys, effect.rkey.value(), pd);
  }
  return BindWindow(keys, qp.send_lists().Bind(effect.slot), {pd, qp.qpn().value()});
}

}  // namespace

// The one queue pair that could use the key is at rest when its own worker takes the key back in
// its name: it would be parked if a copy of its were under way.
bool Worker::Impl::MayStillUse(const QueuePair& qp, const WindowChange& change) const {
  return change.has_ended && change.former_qpn != qp.qpn().value();
}

void Worker::Impl::ExecuteLocals(QueuePair& qp) {
  bool any = false;
  LocalEffect effect;
  while (qp.core().PollLocal(effect)) {
    const WindowChange change = Perform(keys, qp, effect);
    if (MayStillUse(qp, change)) {
      key_waits.Add(qp, KeyWaits::Waiting::kWork);
      return;
    }
    qp.core().OnLocalDone(OutcomeOf(change));
    any = true;
  }
  // There is room for what is posted, and no packet to say so.
  if (any && qp.links().sends_wait) Postpone(qp);
}

void Worker::Impl::InvalidateForPeer(QueuePair& qp, Rkey rkey) {
  const WindowChange change = InvalidateWindow(keys, rkey.value(), qp.remote_pd());
  if (!MayStillUse(qp, change)) return qp.core().OnEffectDone(OutcomeOf(change), 0, now);
  qp.links().parked = ParkedKind::kInvalidate;
  StopSending(qp);
  key_waits.Add(qp, KeyWaits::Waiting::kPacket);
}

bool Worker::Impl::EndKeyWaits() {
  bool any = false;
  key_waits.TakeEnded([&](QueuePair& qp, KeyWaits::Waiting waiting) {
    any = true;
    if (waiting == KeyWaits::Waiting::kWork) {
      qp.core().OnLocalDone(EffectOutcome::kDone);
      Touch(qp);
      return;
    }
    qp.links().parked = ParkedKind::kNone;
    qp.core().OnEffectDone(EffectOutcome::kDone, 0, now);
    EndParking(qp);
  });
  return any;
}

}  // namespace uroce::datapath
