// SPDX-License-Identifier: Apache-2.0
// One fd that stands for any number of fds of a device: it wakes a worker that sleeps.
#pragma once

#include <poll.h>

#include <vector>

namespace uroce::drivers {

/// An epoll set of fds that belong to a driver. Each of them is only waited on, never read: an edge
/// on one makes `fd` readable until the next Drain. A worker that finds nothing after an edge has
/// woken in vain, once.
class ReceiveWake {
 public:
  ReceiveWake();
  ~ReceiveWake();
  ReceiveWake(const ReceiveWake&) = delete;
  ReceiveWake& operator=(const ReceiveWake&) = delete;

  int fd() const { return epoll_fd_; }
  /// Control thread, while no worker is inside the port; false: it cannot be waited on.
  bool Add(int fd);
  /// The same, of a driver that finds its frames only some time after the edge.
  bool AddLate(int fd);
  void RemoveAll();
  /// Whether frames wait behind an fd of AddLate: its edge may be drained, and its driver not have
  /// found them yet. Worker, before it sleeps.
  bool IsLate();
  /// Takes the edges so far. Worker.
  void Drain();

 private:
  int epoll_fd_;
  std::vector<int> fds_;
  std::vector<pollfd> late_;
};

}  // namespace uroce::drivers
