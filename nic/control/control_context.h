// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that a connection needs.
#pragma once

#include <cstdint>
#include <functional>

#include "nic/dumps/dump_stream.h"

namespace uroce {

class BackgroundTasks;
class EventLoop;
class LogBudget;
class UserTurns;

}  // namespace uroce

namespace uroce::nic {

class Monitor;
class Neighbours;
class Nic;
class NicDevice;
class PeerAgreements;
class PortChanges;
class RdmaCmHost;
class Reconfiguration;
class ControlConnection;

/// All references outlive the connections. Control thread.
struct ControlContext {
  EventLoop& loop;
  Nic& nic;
  Neighbours& neighbours;
  RdmaCmHost& rdma_cm;
  PeerAgreements& peers;
  BackgroundTasks& background_tasks;
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
