// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that dumps read.
#pragma once

#include <functional>
#include <vector>

namespace uroce {

class EventLoop;
class UserTurns;

}  // namespace uroce

namespace uroce::nic {

class Client;
class HistoryRecorder;
class Nic;
class PeerAgreements;
class RdmaCmHost;

/// All references outlive every dump.
struct DumpContext {
  EventLoop& loop;
  Nic& nic;
  UserTurns& turns;
  const RdmaCmHost& rdma_cm;
  const PeerAgreements& peers;
  const HistoryRecorder& histories;
  /// Returns all clients in the order of their ids.
  std::function<std::vector<const Client*>()> clients;
};

}  // namespace uroce::nic
