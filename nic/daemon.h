// SPDX-License-Identifier: Apache-2.0
// Assembles the daemon: ports, NICs, workers, control socket; tells the service manager how the
// daemon is (sd_notify(3)).
#pragma once

#include <signal.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/control/control_socket.h"
#include "nic/control/reconfiguration.h"
#include "nic/settings/config.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

class ControlSocket;
class MetricsServer;
class Nic;
class Server;
struct Ports;

/// Tells the service manager that started the daemon how the daemon is (sd_notify(3)): systemd, or
/// another process that has set NOTIFY_SOCKET. Where that is not set, nothing is sent. Control
/// thread.
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
  /// TellReady follows.
  void TellReloading();
  /// The daemon begins to end.
  void TellStopping();

 private:
  void TellAlive();

  EventLoop& loop_;
  Nanos interval_{0};  ///< Between signs of life; 0: none is wanted.
  EventLoop::Id timer_ = 0;
};

/// The path of the control socket when no setting names one: in /run for root, in the user's own
/// runtime directory for others.
std::string DefaultSocketPath();

/// One daemon, from its start to its end. The control thread owns it.
class Daemon {
 public:
  /// `reader` reads the settings that `given` was made from once more.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& given, ConfigReader reader);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// The signals that Run takes. The caller blocks them in all threads.
  static sigset_t Signals();
  /// Serves until SIGTERM or SIGINT. On SIGHUP it reads its settings again.
  void Run();
  /// "ready, socket ..., devices ...".
  std::string ReadyLine() const;

 private:
  void Settle();
  void Serve(std::unique_ptr<MetricsServer> metrics);
  void OnSignal(int signal_fd, ServiceManager& manager);

  Daemon(const Config& config, Ports ports, ControlSocket socket);

  SocketLock lock_;  ///< Goes last: the next daemon takes the same ports.
  EventLoop loop_;
  const std::unique_ptr<Nic> nic_;
  const std::unique_ptr<Server> server_;
  std::unique_ptr<MetricsServer> metrics_;  ///< Null without --metrics.
};

}  // namespace uroce::nic
