// SPDX-License-Identifier: Apache-2.0
// The daemon put together: ports, NICs, workers, control socket.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nic/config.h"
#include "nic/control/event_loop.h"
#include "nic/control/server.h"
#include "nic/resources/nic.h"

namespace uroce::nic {

/// Where the control socket is without a word about it: /run for root, the user's own run
/// directory for others.
std::string DefaultSocketPath();

/// Starts DPDK and opens the ports of the configuration. Once per process.
/// Errors: one line that names the device.
struct Ports {
  std::vector<datapath::WorkerSeat> seats;  ///< Of the workers.
  std::vector<std::unique_ptr<NicDevice>> devices;
};
absl::StatusOr<Ports> OpenPorts(const Config& config);

/// One daemon, from its start to its end. Control thread.
class Daemon {
 public:
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  /// Serves until SIGTERM or SIGINT, which the caller has blocked.
  void Run();
  /// "uroced: ready, socket ..., devices ...".
  std::string ReadyLine() const;

 private:
  void Settle();

  Daemon(const Config& config, Ports ports, ControlSocket socket);

  EventLoop loop_;
  Nic nic_;
  Server server_;
};

}  // namespace uroce::nic
