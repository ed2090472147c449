// SPDX-License-Identifier: Apache-2.0
// All connections of the control socket: admits them and ends them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/user_limits.h"
#include "nic/control/control_context.h"
#include "nic/control/monitor.h"
#include "nic/control/reconfiguration.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

class Client;
class ControlConnection;
struct Services;

/// Control thread.
class ControlConnections {
 public:
  /// `refresh` reads a device again after a change of it, and tells who wants to know.
  ControlConnections(EventLoop& loop, Nic& nic, Services& services,
                     std::function<void(NicDevice&)> refresh, PortChanges::Hooks hooks);
  ~ControlConnections();
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /// Admits the client that connected on `socket`, or refuses it and tells it why.
  void Admit(Fd socket);
  /// What dumps read.
  const DumpContext& dumps() const { return context_.dumps; }
  Monitor& monitor() { return monitor_; }
  Reconfiguration& reconfiguration() { return reconfiguration_; }
  PortChanges& port_changes() { return port_changes_; }
  size_t count() const { return connections_.size(); }
  /// Ends the connections of programs that removed memory which the daemon had mapped.
  void EndStruck();
  /// Ends all connections at once.
  void Clear();
  /// Logs how many lines of users with a line left at `now` were left out.
  void TellOmissions(Nanos now);

 private:
  /// Refuses a client; says why to the client and in the log.
  void TurnAway(Fd socket, uid_t uid, const absl::Status& status);
  std::vector<const Client*> Clients() const;
  void End(ControlConnection& connection);
  void Bury();

  Nic& nic_;
  Admission admission_;
  LoginUsers login_users_;
  Reconfiguration reconfiguration_;
  UserTurns turns_;
  ControlContext context_;
  Monitor monitor_;
  PortChanges port_changes_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, std::unique_ptr<ControlConnection>> connections_;
  std::deque<uint32_t> ended_;
  // The timer of Bury, while `ended_` has connections.
  EventLoop::Id burial_ = 0;
};

}  // namespace uroce::nic
