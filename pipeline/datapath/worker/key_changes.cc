// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/key_changes.h"

namespace uroce::datapath {
namespace {

using transport::EffectOutcome;
using transport::LocalEffect;

// Any outcome but kDone makes the work fail.
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

// Whether another may be using the key that `qp` has taken back. If `qp` is the one queue pair that
// could use the key, no access is under way: `qp` would be waiting if one of its copies were under
// way.
bool MayStillUse(const QueuePair& qp, const WindowChange& change) {
  return change.has_ended && change.former_qpn != qp.qpn().value();
}

}  // namespace

void KeyChanges::ExecuteLocals(QueuePair& qp) {
  bool any = false;
  LocalEffect effect;
  while (qp.core().PollLocal(effect)) {
    const WindowChange change = Perform(keys_, qp, effect);
    if (MayStillUse(qp, change)) {
      waits_.Add(qp, KeyWaits::Waiting::kWork);
      return;
    }
    qp.core().OnLocalDone(OutcomeOf(change));
    any = true;
  }
  // The transport has room for posted works now, and no packet will cause another look at them.
  if (any && qp.may_have_sends()) ready_.Postpone(qp);
}

void KeyChanges::InvalidateForPeer(QueuePair& qp, Rkey rkey) {
  const WindowChange change = InvalidateWindow(keys_, rkey.value(), qp.remote_pd());
  if (!MayStillUse(qp, change)) return qp.core().OnEffectDone(OutcomeOf(change), 0, time_.now());
  qp.links().wait = WaitKind::kInvalidate;
  StopSending(qp);
  waits_.Add(qp, KeyWaits::Waiting::kPacket);
}

}  // namespace uroce::datapath
