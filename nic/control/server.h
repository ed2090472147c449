// SPDX-License-Identifier: Apache-2.0
// The control socket with all its connections, and the maintenance of the ports.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "nic/base/event_loop.h"
#include "nic/control/control_socket.h"
#include "nic/control/device_tree.h"
#include "nic/control/statistics.h"
#include "nic/net/kernel_resources.h"
#include "nic/net/netlink.h"
#include "nic/objects/balancer.h"

namespace uroce::nic {

class ControlConnections;
class Nic;
class NicDevice;
class PortChanges;
class Reconfiguration;
struct Services;

/// Warns when another NIC serves an address of the kernel that one of the daemon's NICs serves.
///
/// Two such NICs get the same packets. Queue pairs with numbers of one are mostly unknown to the
/// other, so that much works; but both answer what goes to queue pair 1: a connection may be
/// refused by the NIC that does not know the service. No daemon can tell which one
/// was meant, and any process can put up a sign: a line in the log and no error. Control thread.
class ServedAddresses {
 public:
  /// Call it when the device is there, and when its addresses or its interface may have changed.
  void Update(const NicDevice& device);
  void Forget(const NicDevice& device) { signs_.erase(&device); }

 private:
  std::map<const NicDevice*, AddressSigns> signs_;
};

/// The control socket and all connections on it. Control thread: everything here happens in `loop`.
class Server {
 public:
  Server(EventLoop& loop, Nic& nic, ControlSocket socket);
  /// Ends all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  size_t connection_count() const;
  /// The daemon is about to end: no further client connects.
  void Retire() { socket_.Retire(); }
  /// The counters of all devices.
  Statistics& statistics() { return statistics_; }
  Reconfiguration& reconfiguration();
  PortChanges& port_changes();
  /// Whether conflict detection for the ports' own addresses is still running.
  bool is_settling() const;

 private:
  void OnConnection();
  void OnNetworkChange();
  void RefreshAfter(Nanos delay);
  /// Has every port check its device periodically; tells programs what has changed.
  void MaintainPorts();
  void MaintainPort(NicDevice& device);
  void Refresh(NicDevice& device);
  void WatchPort(NicDevice& device);
  void OnAdded(NicDevice& device);
  void OnRemoved(NicDevice& device);
  /// Tells the peers of programs that the programs end, with the daemon.
  void SayFarewell();

  EventLoop& loop_;
  Nic& nic_;
  const std::unique_ptr<Services> services_;
  const std::unique_ptr<ControlConnections> connections_;
  ControlSocket socket_;
  DeviceTree tree_;  ///< Removed before the socket: later another daemon may create its tree there.
  Statistics statistics_;
  LiveCounters counters_;
  ServedAddresses served_addresses_;
  Balancer balancer_;
  NetlinkWatch network_;
  EventLoop::Id listener_watch_ = 0;
  EventLoop::Id network_watch_ = 0;
  EventLoop::Id overflow_watch_ = 0;
  EventLoop::Id guard_watch_ = 0;
  std::map<const NicDevice*, EventLoop::Id> port_watches_;
  EventLoop::Id maintenance_ = 0;
  EventLoop::Id settling_ = 0;
};

}  // namespace uroce::nic
