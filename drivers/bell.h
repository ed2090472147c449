// SPDX-License-Identifier: Apache-2.0
// Wakes the worker of one queue of a port.
#pragma once

#include <atomic>

#include "nic/base/fd.h"

namespace uroce::drivers {

/// Whoever puts a frame where another worker looks rings afterwards. A worker that sleeps announces
/// it and looks once more. Of the two exchanges one comes second: it sees the frame, or that its
/// worker sleeps.
class alignas(64) Bell {
 public:
  Bell();
  int fd() const { return event_.get(); }

  /// Any worker.
  void Ring();
  // ---- the worker of the queue ----
  void Announce() { asleep_.exchange(true, std::memory_order_acq_rel); }
  /// After each Announce.
  void TakeBack();

 private:
  std::atomic<bool> asleep_{false};
  Fd event_;
};

}  // namespace uroce::drivers
