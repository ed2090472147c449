// SPDX-License-Identifier: Apache-2.0
// All connections of the control socket: who is let in, and how they end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/fd.h"
#include "nic/base/log_budget.h"
#include "nic/base/user_turns.h"
#include "nic/control/admission.h"
#include "nic/control/control_context.h"

namespace uroce::nic {

class Client;
class ControlConnection;
struct Services;

/// Control thread.
class ControlConnections {
 public:
  ControlConnections(EventLoop& loop, Nic& nic, Services& services);
  ~ControlConnections();
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /// Lets in whoever connected on `socket`, or tells why not.
  void Admit(Fd socket);
  size_t count() const { return connections_.size(); }
  /// Ends those whose programs took memory away under the daemon.
  void EndStruck();
  /// Ends all at once.
  void Clear();
  /// Logs how many lines were left out.
  void TellOmissions();

 private:
  /// Says why, to the program and in the log.
  void TurnAway(Fd socket, uid_t uid, const absl::Status& status);
  std::vector<const Client*> Clients() const;
  void End(ControlConnection& connection);
  void Bury();

  Nic& nic_;
  Admission admission_;
  UserTurns turns_;
  LogBudget log_budget_;
  ControlContext context_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, std::unique_ptr<ControlConnection>> connections_;
  std::deque<uint32_t> ended_;
};

}  // namespace uroce::nic
