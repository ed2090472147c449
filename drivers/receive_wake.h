// SPDX-License-Identifier: Apache-2.0
// One fd that stands for any number of fds of a device: it wakes a worker that sleeps.
#pragma once

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
  void RemoveAll();
  /// Takes the edges so far. Worker.
  void Drain();

 private:
  int epoll_fd_;
  std::vector<int> fds_;
};

}  // namespace uroce::drivers
