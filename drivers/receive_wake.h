// SPDX-License-Identifier: Apache-2.0
// One fd that combines the fds of a device: it wakes a sleeping worker.
#pragma once

#include <poll.h>

#include <vector>

namespace uroce::drivers {

/// An epoll set of fds that belong to a driver. The fds are only waited on, never read: an edge on
/// one makes `fd` readable until the next Drain. A worker that finds no frames after an edge was
/// woken once in vain.
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

}  // namespace uroce::drivers
