// SPDX-License-Identifier: Apache-2.0
// Wakes the worker that drives one queue of a port.
#pragma once

#include <atomic>

#include "nic/base/fd.h"

namespace uroce::drivers {

/// Whoever puts a frame where another worker looks calls Ring afterwards. A worker that is about to
/// sleep calls Announce and then looks for frames once more. Of these two atomic exchanges the
/// later one sees the other: either the worker sees the frame, or the ringer sees that the worker
/// sleeps.
class alignas(64) Bell {
 public:
  Bell();
  int fd() const { return event_.get(); }

  /// Called by any worker.
  void Ring();
  // ---- the worker of the queue ----
  void Announce() { asleep_.exchange(true, std::memory_order_acq_rel); }
  /// Must follow each Announce.
  void TakeBack();

 private:
  std::atomic<bool> asleep_{false};
  Fd event_;
};

}  // namespace uroce::drivers
