// SPDX-License-Identifier: Apache-2.0
// Assembles the daemon: ports, NICs, workers, control socket.
#pragma once

#include <signal.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/control/reconfiguration.h"
#include "nic/control/socket_lock.h"
#include "nic/settings/config.h"

namespace uroce::nic {

class ControlSocket;
class MetricsServer;
class Nic;
class Server;
class ServiceManager;
struct Ports;

/// The path of the control socket when no setting names one: in /run for root, in the user's own
/// runtime directory for others.
std::string DefaultSocketPath();

/// One daemon, from its start to its end. The control thread owns it.
class Daemon {
 public:
  /// `reader` reads the settings that `config` was made from once more.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config, ConfigReader reader);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// The signals that Run takes. The caller blocks them in all threads.
  static sigset_t Signals();
  /// Serves until SIGTERM or SIGINT. SIGHUP has it read its settings anew.
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
