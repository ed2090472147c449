// SPDX-License-Identifier: Apache-2.0
// The control socket and all sessions on it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "nic/control/admission.h"
#include "nic/control/control_socket.h"
#include "nic/control/device_tree.h"
#include "nic/control/errands.h"
#include "nic/control/event_loop.h"
#include "nic/control/flight_recorder.h"
#include "nic/control/log_budget.h"
#include "nic/control/peer_agreements.h"
#include "nic/control/rdma_cm_host.h"
#include "nic/control/session.h"
#include "nic/control/user_turns.h"
#include "nic/net/gsi.h"
#include "nic/net/neighbours.h"
#include "nic/resources/fd.h"
#include "nic/resources/nic.h"

namespace uroce::nic {

/// Control thread: everything here happens in `loop`.
class Server {
 public:
  Server(EventLoop& loop, Nic& nic, ControlSocket socket);
  /// Ends all sessions and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  size_t session_count() const { return sessions_.size(); }
  /// Whether it is still being found out if the ports' own addresses may be used.
  bool is_settling() const { return neighbours_.has_tentative_address(); }

 private:
  void OnConnection();
  /// Says why, to the program and in the log.
  void TurnAway(Fd socket, uid_t uid, const absl::Status& status);
  void OnNetworkChange();
  void RefreshAfter(Nanos delay);
  /// Has every port look after its device, now and then; what changed is told to programs.
  void MaintainPorts();
  void MaintainPort(NicDevice& device);
  void Refresh(NicDevice& device);
  /// Ends the sessions whose programs took memory away under the daemon.
  void OnStruckMappings();
  void End(Session& session);
  void Bury();
  /// Of lines of the log.
  void TellOmissions();
  /// Lets the peers of programs know that these are gone, with the daemon.
  void SayFarewell();

  EventLoop& loop_;
  Nic& nic_;
  Neighbours neighbours_;
  Gsi gsi_;
  RdmaCmHost rdma_cm_;
  PeerAgreements peers_;
  Errands errands_;
  FlightRecorder flights_;
  Admission admission_;
  UserTurns turns_;
  LogBudget log_budget_;
  ControlContext context_;
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
  uint32_t next_id_ = 1;
  std::map<uint32_t, std::unique_ptr<Session>> sessions_;
  std::deque<uint32_t> ended_;
};

}  // namespace uroce::nic
