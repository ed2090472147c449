// SPDX-License-Identifier: Apache-2.0
// Tells the service manager that started the daemon how the daemon is (sd_notify(3)).
#pragma once

#include <string>

#include "nic/base/event_loop.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Messages to systemd, or to whoever else has set NOTIFY_SOCKET. Where that is not set, nothing is
/// sent. Control thread.
class ServiceManager {
 public:
  /// While `loop` runs, the manager gets two signs of life in each WATCHDOG_USEC, if that is set. A
  /// control thread that hangs sends none. `loop` lives longer.
  explicit ServiceManager(EventLoop& loop);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Programs may connect; `status` is a line for people.
  void TellReady(const std::string& status);
  /// The daemon begins to end.
  /// TellReady follows.
  void TellReloading();
  void TellStopping();

 private:
  void TellAlive();

  EventLoop& loop_;
  Nanos interval_{0};  ///< Between signs of life; 0: none is wanted.
  EventLoop::Id timer_ = 0;
};

}  // namespace uroce::nic
