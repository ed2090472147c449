// SPDX-License-Identifier: Apache-2.0
// What dumps need of the daemon.
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

/// All of it outlives every dump.
struct DumpContext {
  EventLoop& loop;
  Nic& nic;
  UserTurns& turns;
  const RdmaCmHost& rdma_cm;
  const PeerAgreements& peers;
  const HistoryRecorder& histories;
  /// All clients, by rising ids.
  std::function<std::vector<const Client*>()> clients;
};

}  // namespace uroce::nic
