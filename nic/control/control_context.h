// SPDX-License-Identifier: Apache-2.0
// The services that run on the control thread for all connections, and the parts of the daemon that
// one connection needs.
#pragma once

#include <cstdint>
#include <functional>

#include "nic/base/event_loop.h"
#include "nic/base/user_limits.h"
#include "nic/capture/packet_histories.h"
#include "nic/connections/negotiation_host.h"
#include "nic/connections/path_services.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/dumps/dump_stream.h"

namespace uroce {

class LogBudget;
class UserTurns;

}  // namespace uroce

namespace uroce::nic {

class ControlConnection;
class Monitor;
class Nic;
class NicDevice;
class PortChanges;
class Reconfiguration;

/// Each member needs those above it. Outlives the connections.
struct Services {
  Services(EventLoop& loop, Nic& nic);

  PathServices paths;
  RdmaCmHost rdma_cm;
  NegotiationHost peers;
  BackgroundTasks tasks;
  LogBudget log_budget;
  HistoryRecorder histories;
};

/// All references outlive the connections. Control thread.
struct ControlContext {
  EventLoop& loop;
  Nic& nic;
  Services& services;
  UserTurns& turns;
  LogBudget& log_budget;
  const DumpContext dumps;
  Monitor& monitor;
  Reconfiguration& reconfiguration;
  PortChanges& port_changes;
  /// Ends a connection, after the current callback.
  std::function<void(ControlConnection&)> end;
  /// Reads a device again after a change of it: files and programs are told what is new.
  std::function<void(NicDevice&)> refresh;
  uint32_t captures = 0;  ///< Captures that are running.
};

}  // namespace uroce::nic
