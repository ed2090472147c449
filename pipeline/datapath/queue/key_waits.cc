// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/key_waits.h"

#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/grace_periods.h"

namespace uroce::datapath {

void KeyWaits::Add(QueuePair& qp, Waiting waiting) {
  const uint64_t token = grace_ == nullptr ? 0 : grace_->Start();
  waits_.push_back({.qp = &qp, .waiting = waiting, .grace_token = token});
}

void KeyWaits::Remove(const QueuePair& qp) {
  std::erase_if(waits_, [&qp](const Wait& wait) { return wait.qp == &qp; });
}

// Only one program, and its helper, uses the keys of a domain with copied memory.
bool KeyWaits::HasEnded(Wait& wait) const {
  if (wait.waiting == Waiting::kWork && wait.qp->is_waiting()) return false;
  const Session& session = *wait.qp->memory_session();
  if (wait.in_grace) {
    if (grace_ != nullptr && !grace_->HasPassed(wait.grace_token)) return false;
    wait.in_grace = false;
    wait.copies_begun = session.copies_begun();
  }
  return session.CopiesDone(wait.copies_begun);
}

}  // namespace uroce::datapath
