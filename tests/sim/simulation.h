// SPDX-License-Identifier: Apache-2.0
// Simulates a whole run: hosts, queue pairs of all kinds between them, a faulty network, programs
// and judges. Time is virtual, and all choices come from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/host_pauses.h"
#include "tests/sim/network.h"
#include "tests/sim/parties/party.h"
#include "tests/sim/parties/rc_party.h"
#include "tests/sim/parties/receive_pool.h"
#include "tests/sim/parties/remote_memory.h"
#include "tests/sim/parties/uc_party.h"
#include "tests/sim/parties/ud_party.h"
#include "tests/sim/parties/workload.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// What is left out of a run, to find the smallest run that still fails. The remaining parts do not
/// change: each part draws from its own seed.
struct SimulationOptions {
  static constexpr uint32_t kAll = UINT32_MAX;
  static constexpr uint32_t kDatagrams = 99;

  uint64_t seed = 1;
  uint32_t connection = kAll;  ///< The one to run; kDatagrams: only the datagrams.
  uint32_t works = kAll;       ///< Of each program, at most so many.
  uint32_t without = 0;        ///< Bits of `Part`.
  /// In place of those that the seed draws. ToString leaves them out.
  std::optional<NetworkFaults> faults = std::nullopt;
  bool has_room = false;  ///< See RcPartyConfig.

  enum Part : uint32_t {
    kDrop = 1 << 0,
    kDuplicate = 1 << 1,
    kDelay = 1 << 2,
    kCorrupt = 1 << 3,
    kPause = 1 << 4,
    kDeath = 1 << 5,
    kIllegal = 1 << 6,
    kHostPauses = 1 << 7,
    kFar = 1 << 8,
    kShrink = 1 << 9,
    kSelectiveRepeat = 1 << 10,
    kReset = 1 << 11,
    kAllParts = (1 << 12) - 1,
  };
  /// Converts to "seed=7,connection=1,works=3,without=5", and back. Unknown words end the program.
  std::string ToString() const;
  static SimulationOptions FromString(const std::string& text);
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  /// Runs to the end. Returns "" when all is well.
  std::string Run();
  /// Before Run.
  void SetWitness(Witness* witness) { network_.SetWitness(witness); }
  bool is_ipv6() const { return conditions_.ipv6; }
  uint64_t packets() const { return network_.taken(); }
  uint64_t retransmitted() const;

 private:
  struct Conditions {
    Conditions(const SimulationOptions& options, Random random);
    NetworkFaults faults;
    uint32_t hosts;
    bool ipv6;
    bool death;
    uint32_t dying_host;
    Nanos time_of_death;
    uint32_t host_pauses;  ///< In a thousand turns.
  };

  /// A reliable connection, and the settings that its works are drawn from.
  struct Connection {
    RcParty& a;
    RcParty& b;
    RemoteMemory& memory_a;
    RemoteMemory& memory_b;
    WorkloadConfig workload;  ///< Of `a`; the plan of `b` has no illegal work.
    bool one_way;
    Nanos reset = kNever;  ///< When it drops all works under way and is reconnected.
    Qpn next_qpn_a;
    Qpn next_qpn_b;
    Random random;
  };

  void AddConnection(uint32_t index);
  void AddRc(uint32_t a, uint32_t b, bool xrc, Random& random);
  /// Plans the works of both ends, for the present contents of memory.
  void Plan(Connection& connection);
  Workload* PlanOf(const WorkloadConfig& config, const RemoteMemory& target, Random& random);
  void PlanReset(Connection& connection);
  void Reset(Connection& connection);
  void AddUc(uint32_t a, uint32_t b, Random& random);
  void AddDatagrams(Random& random);
  uint32_t Works(Random& random) const;
  /// Whether an end of a connection supports selective repeat.
  bool Selective(Random& random) const;
  RemoteMemory& AddMemory(uint32_t bytes, Random& random);
  ReceivePool& AddPool(Random& random);
  /// Registers a party under `qpn`.
  template <typename Kind>
  Kind& Add(Qpn qpn, std::unique_ptr<Kind> party);
  Qpn NextQpn() { return Qpn(next_qpn_++); }

  void TakeArrivals(Nanos now);
  /// Runs each host that is awake. Returns when the next event is due.
  Nanos TakeTurns(Nanos now);
  /// Runs one party. Returns when it wants the next turn.
  Nanos TakeTurn(Party& party, Nanos now);
  void Deliver(const Arrival& arrival, Nanos now);
  void Kill(Nanos now);
  void ResetSome(Nanos now);
  /// Frames to its former QPN then find no queue pair.
  void Rename(const Party& party, Qpn qpn);
  bool finished() const;
  std::string FirstFault() const;
  std::string Describe() const;

  SimulationOptions options_;
  Conditions conditions_;
  Network network_;
  HostPauses pauses_;
  std::vector<std::unique_ptr<RemoteMemory>> memories_;
  std::vector<std::unique_ptr<ReceivePool>> pools_;
  std::vector<std::unique_ptr<ReceivePool>> shared_pools_;  ///< One for each host.
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::vector<std::unique_ptr<Party>> parties_;
  std::vector<Nanos> next_turns_;  ///< Of each party.
  std::map<Qpn, size_t> index_of_;
  std::vector<Connection> connections_;
  Nanos next_reset_ = kNever;
  uint32_t next_qpn_ = 0x100;
  bool faulty_ = false;  ///< A party has found a fault.
};

/// Runs `options`. When that fails, finds the smallest run that also fails. Returns "", or what is
/// wrong and the options that repeat it.
std::string RunAndMinimize(const SimulationOptions& options, uint64_t& packets,
                           uint64_t& retransmitted);

}  // namespace uroce::sim
