// SPDX-License-Identifier: Apache-2.0
// The fds that wake a sleeping worker when frames arrive, from the kernel (ReceiveWake) or from
// another worker (Bell).
#pragma once

#include <poll.h>

#include <atomic>
#include <vector>

#include "pipeline/os/fd.h"

namespace uroce::drivers {

/// One fd that combines the fds of a device: an epoll set. The fds belong to a driver and are only
/// waited on, never read: an edge on one makes `fd` readable until the next Drain. A worker that
/// finds no frames after an edge was woken once in vain.
class ReceiveWake {
 public:
  ReceiveWake();
  ~ReceiveWake();
  ReceiveWake(const ReceiveWake&) = delete;
  ReceiveWake& operator=(const ReceiveWake&) = delete;

  int fd() const { return epoll_fd_; }
  /// Control thread, while no worker is inside the port. False: the fd cannot be waited on.
  bool Add(int fd);
  /// Like Add, for a driver that finds its frames only some time after the edge.
  bool AddLate(int fd);
  void RemoveAll();
  /// Whether frames wait behind an fd of AddLate: the edge may be drained before the driver has
  /// found them. Called by the worker before it sleeps.
  bool IsLate();
  /// Clears the edges so far. Called by the worker.
  void Drain();

 private:
  int epoll_fd_;
  std::vector<int> fds_;
  std::vector<pollfd> late_;
};

/// Wakes the worker that drives one queue of a port. A worker that puts a frame where another
/// worker looks calls Ring afterwards. A worker that is about to sleep calls Announce and then
/// looks for frames once more. Of these two atomic exchanges the later one sees the other: either
/// the worker sees the frame, or the ringer sees that the worker sleeps.
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
