// SPDX-License-Identifier: Apache-2.0
// Moves all traffic but RoCE between a port and the kernel's network stack.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// Moves frames between a TAP and a worker, on its own thread from construction to destruction:
/// bulk traffic of the kernel delays no command. Frames that the worker does not take stay in the
/// TAP's queue, so that the kernel's senders see backpressure as on any slow link.
class ExceptionPath {
 public:
  /// `tap`, `link` and `worker` outlive the object; `name` is the TAP's, for the log.
  ExceptionPath(std::string name, int tap, datapath::HostLink& link, datapath::Worker& worker);
  ~ExceptionPath();
  ExceptionPath(const ExceptionPath&) = delete;
  ExceptionPath& operator=(const ExceptionPath&) = delete;

 private:
  static constexpr int kBurst = 64;

  void ThreadMain();
  /// Each moves up to kBurst frames. Returns whether there was one.
  bool ToKernel();
  bool FromKernel();
  void Wait();

  const std::string name_;
  int tap_;  ///< -1 after the interface was deleted.
  datapath::HostLink& link_;
  datapath::Worker& worker_;
  const Fd stop_;
  bool worker_is_behind_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace uroce::nic
