// SPDX-License-Identifier: Apache-2.0
// Simulates a whole run of rdma_cm services. Programs on several hosts resolve, connect, delay,
// refuse, are killed and started again. The network loses, duplicates and reorders. Hosts die and
// come back with the same queue pairs. Time is virtual, and all choices come from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/cm/history.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/rdma_cm/node.h"

namespace uroce::sim::rdma_cm {

/// Counts what happened in a run, to check that the run tried what it should.
struct Summary {
  uint64_t connections = 0;
  uint64_t established = 0;
  uint64_t rejected = 0;
  uint64_t unresolved = 0;
  uint64_t services_found = 0;
  uint64_t kills = 0;
  uint64_t deaths = 0;
  uint64_t retransmitted = 0;
  friend bool operator==(const Summary&, const Summary&) = default;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);

  /// Runs to the end. Returns "" when all is well.
  std::string Run();
  void AddTo(Summary& summary) const;

 private:
  enum class Do : uint8_t {
    kCreate,
    kRoute,
    kConnect,
    kTake,
    kAccept,
    kReject,
    kEstablish,
    kDisconnect,
    kDestroy,
    kKill,
    kStartProgram,
    kDie,
    kRestart,
  };
  /// The host, the program and the endpoint that an action is for.
  struct Place {
    uint32_t node = 0;
    uint32_t program = 0;
    EndpointId id{};
  };
  struct Action {
    Nanos at;
    uint64_t order = 0;
    Place place;
    uint32_t life = 0;  ///< Of the program.
    Do what = Do::kDestroy;
    uint32_t attempt = 0;
    bool operator<(const Action& other) const {  // The top of the queue is its greatest element.
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  /// How bad the network and the hosts are.
  struct Conditions {
    explicit Conditions(Random random);
    NetworkFaults faults;
    uint32_t nodes;
    uint32_t connections;
    uint32_t kills;
    uint32_t backlog;
    bool death;
  };
  struct Attempt {
    cm::Attempt history;
    bool is_datagram = false;
    bool is_unreachable = false;  ///< Goes to an address that no host has.
    bool is_connection = false;   ///< It has got as far as a REQ.
  };

  // ---- the plan ----
  void Plan(Nanos at, const Place& place, Do what, uint32_t attempt = 0);
  void PlanAttempts();
  void PlanKills();
  void PlanDeath();
  Nanos After(uint32_t most_ms) {
    return now_ + Nanos(int64_t{random_.Below(most_ms * 1000 + 1)} * 1000);
  }
  bool Dawdles() { return random_.Happens(100); }

  // ---- time ----
  Nanos NextMoment() const;
  void RunUntilQuiet();
  void DeliverArrivals();
  void LookAtWhatWasTold(uint32_t node);
  void Send(uint32_t from, const nic::cm::Route& route, std::span<const uint8_t> mad);

  // ---- hosts and programs ----
  void Act(const Action& action);
  void Start(uint32_t node);
  void Listen(uint32_t node);
  void OnProgram(const Action& action);
  void Create(const Action& action);
  void Connect(const Action& action);
  void Accept(const Action& action);
  void Establish(const Action& action);
  nic::rdma_cm::ConnectionParameters NewQueuePair(uint32_t node);
  cm::End* FindEnd(const Place& place);

  // ---- what programs are told ----
  void OnEvent(const Place& place, const nic::rdma_cm::Event& event);
  void OnRequest(const Place& place, const nic::rdma_cm::Event& event);
  void OnEnd(const Place& place, cm::End& end, const nic::rdma_cm::Event& event);
  void OnDatagramEvent(const Place& place, const nic::rdma_cm::Event& event);

  void Fail(const std::string& fault);
  std::string Judge();

  Random random_;
  const uint64_t seed_;
  Conditions conditions_;
  Network network_;
  Nanos now_{1'000'000'000};
  uint64_t order_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<uint32_t> next_qpn_;
  std::vector<bool> died_;
  std::vector<bool> server_killed_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  /// By the active side's node and queue pair, which differ for all attempts of a life.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> by_queue_pair_;
  /// The attempt that an active endpoint is for.
  std::map<std::tuple<uint32_t, uint32_t, EndpointId>, uint32_t> by_endpoint_;
  std::priority_queue<Action> actions_;
  std::string fault_;
  Summary summary_;
};

}  // namespace uroce::sim::rdma_cm
