// SPDX-License-Identifier: Apache-2.0
// The control socket and all connections on it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/base/fd.h"
#include "nic/control/control_socket.h"
#include "nic/control/device_tree.h"

namespace uroce::nic {

class Nic;
class NicDevice;
class ControlConnections;
struct Services;

/// Control thread: everything here happens in `loop`.
class Server {
 public:
  Server(EventLoop& loop, Nic& nic, ControlSocket socket);
  /// Ends all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  size_t connection_count() const;
  /// Whether it is still being found out if the ports' own addresses may be used.
  bool is_settling() const;

 private:
  void OnConnection();
  void OnNetworkChange();
  void RefreshAfter(Nanos delay);
  /// Has every port look after its device, now and then; what changed is told to programs.
  void MaintainPorts();
  void MaintainPort(NicDevice& device);
  void Refresh(NicDevice& device);
  /// Lets the peers of programs know that these are gone, with the daemon.
  void SayFarewell();

  EventLoop& loop_;
  Nic& nic_;
  const std::unique_ptr<Services> services_;
  const std::unique_ptr<ControlConnections> connections_;
  ControlSocket socket_;
  DeviceTree tree_;  ///< Goes before the socket: behind that, another daemon may have one there.
  Fd network_;
  EventLoop::Id listener_watch_ = 0;
  EventLoop::Id network_watch_ = 0;
  EventLoop::Id overflow_watch_ = 0;
  EventLoop::Id guard_watch_ = 0;
  std::vector<EventLoop::Id> port_watches_;
  EventLoop::Id maintenance_ = 0;
  EventLoop::Id settling_ = 0;
};

}  // namespace uroce::nic
