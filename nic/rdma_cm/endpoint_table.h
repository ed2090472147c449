// SPDX-License-Identifier: Apache-2.0
// The endpoints of all programs, found by their ids, communications and bindings, and the counts
// that bound what one program or user has of them. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "nic/rdma_cm/endpoint.h"
#include "nic/rdma_cm/types.h"

namespace uroce::nic::rdma_cm {

/// Limits of endpoints, including what remains of their connections after they end: time wait, a
/// DREQ that waits for its answer. Limits of joins: of multicast groups.
struct EndpointLimits {
  uint32_t endpoints_per_program = 16384;
  uint32_t endpoints_per_user = 32768;
  uint32_t joins_per_program = 256;
  uint32_t joins_per_user = 512;
};

/// The program that endpoints belong to.
struct Owner {
  uint32_t client = 0;  ///< The program's number in the daemon.
  uint32_t uid = 0;
  bool is_privileged = false;
};

/// Called for each event of a program's endpoints, in order, as it arises: also from within calls
/// of the program. The handler must not call the service; it queues the event.
using EventHandler = std::function<void(const Event&)>;

/// Owned by the service. Addresses of endpoints are stable. A program is a number, from AddClient.
class EndpointTable {
 public:
  explicit EndpointTable(const EndpointLimits& limits) : limits_(limits) {}

  // ---- programs ----
  uint32_t AddClient(const Owner& owner, EventHandler handler);
  /// The program's handler is not called any more.
  void Mute(uint32_t client) {
    clients_.at(client).handler = [](const Event&) {};
  }
  /// The program has no endpoint any more.
  void RemoveClient(uint32_t client);
  /// Forgets users of whom nothing is counted any more.
  void ForgetUsers();
  const Owner& OwnerOf(uint32_t client) const { return clients_.at(client).owner; }
  const Owner& OwnerOf(const Endpoint& endpoint) const { return OwnerOf(endpoint.client); }
  /// Gives the program an event of this endpoint.
  void Raise(const Endpoint& endpoint, Event event) const;

  // ---- limits ----
  /// Whether the program may have one more endpoint; whether its user may.
  bool HasRoomOfProgram(uint32_t client) const;
  bool HasRoomOfUser(uint32_t client) const;
  bool HasRoomToJoin(uint32_t client) const;
  /// Counts a join of the program and its user while the result lives.
  std::shared_ptr<void> CountJoin(uint32_t client) { return Count(client, &Holdings::joins); }

  // ---- endpoints ----
  /// Adds an endpoint, which is counted while its `place` is held. Range: both have room.
  Endpoint& Add(uint32_t client);
  void Remove(const Endpoint& endpoint);
  void SetComm(Endpoint& endpoint, cm::CommId comm);
  void SetBinding(Endpoint& endpoint, cm::BindingId binding);
  /// Null when the program has no such endpoint.
  Endpoint* Find(uint32_t client, EndpointId id) const;
  /// Any endpoint of the program; null when it has none.
  Endpoint* FindAny(uint32_t client) const;
  Endpoint* FindByComm(cm::CommId comm) const;
  Endpoint* FindByBinding(cm::BindingId binding) const;
  /// The endpoint with this id, which exists.
  Endpoint& At(EndpointId id) const { return *endpoints_.at(static_cast<uint32_t>(id)); }
  /// Calls `visit(Endpoint&)` for each endpoint, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [number, endpoint] : endpoints_) visit(*endpoint);
  }

 private:
  /// Counts of one program, or of all programs of a user.
  struct Holdings {
    uint32_t endpoints = 0;  ///< Including remains of connections.
    uint32_t joins = 0;
  };
  struct Client {
    Owner owner;
    EventHandler handler;
    std::set<EndpointId> endpoints;
    std::shared_ptr<Holdings> holdings;
    std::shared_ptr<Holdings> of_user;
  };

  /// Counts one for the program and its user while the result lives.
  std::shared_ptr<void> Count(uint32_t client, uint32_t Holdings::*what);

  const EndpointLimits limits_;
  uint32_t last_client_ = 0;
  uint32_t last_endpoint_ = 0;
  absl::flat_hash_map<uint32_t, Client> clients_;
  absl::flat_hash_map<uint32_t, std::weak_ptr<Holdings>> users_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Endpoint>> endpoints_;
  absl::flat_hash_map<uint32_t, EndpointId> by_comm_;
  absl::flat_hash_map<uint32_t, EndpointId> by_binding_;
};

}  // namespace uroce::nic::rdma_cm
