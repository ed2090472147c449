// SPDX-License-Identifier: Apache-2.0
// Simulates a whole run of connection managers. Programs connect to each other, delay, refuse, are
// killed, and name queue pairs of others. The network loses, duplicates and reorders. Nodes die and
// come back with the same queue pairs. Time is virtual, and all choices come from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "nic/cm/manager.h"
#include "tests/sim/cm/history.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"

namespace uroce::sim::cm {

struct Options {
  static constexpr uint32_t kAll = UINT32_MAX;

  uint64_t seed = 1;
  uint32_t connections = kAll;  ///< Runs at most so many: the first ones.
  uint32_t without = 0;         ///< Bits of Part.

  enum Part : uint32_t {
    kDrop = 1 << 0,
    kDuplicate = 1 << 1,
    kDelay = 1 << 2,
    kDeath = 1 << 3,
    kKills = 1 << 4,
    kClaims = 1 << 5,
    kAllParts = (1 << 6) - 1,
  };
  /// Converts to "seed=7,connections=3,without=5", and back. Unknown words end the program.
  std::string ToString() const;
  static Options FromString(const std::string& text);
};

/// Counts what happened in a run, to check that the run tried what it should.
struct Summary {
  uint64_t connections = 0;
  uint64_t established = 0;
  uint64_t rejected = 0;
  uint64_t unreachable = 0;
  uint64_t resolved = 0;
  uint64_t messages = 0;
  uint64_t retransmitted = 0;
  uint64_t mras = 0;
  uint64_t stale = 0;
  uint64_t claims = 0;  ///< Claims of queue pairs in established connections.
  friend bool operator==(const Summary&, const Summary&) = default;
};

class Simulation {
 public:
  explicit Simulation(const Options& options);

  /// Runs to the end. Returns "" when all is well.
  std::string Run();
  void AddTo(Summary& summary) const;

 private:
  enum class Do : uint8_t {
    kConnect,
    kResolve,
    kTake,
    kAccept,
    kReject,
    kEstablish,
    kFirstPacket,
    kDisconnect,
    kAnswer,
    kDestroy,
    kDie,
    kRestart,
  };
  struct Action {
    Nanos at;
    uint64_t order = 0;
    uint32_t node = 0;
    uint32_t life = 0;  ///< Of the node. Actions of another life are void.
    Do what = Do::kDestroy;
    CommId id;
    uint32_t attempt = 0;
    bool operator<(const Action& other) const {  // The top of the queue is its greatest element.
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Node {
    std::unique_ptr<nic::cm::Manager> manager;  ///< Null when the node is dead.
    uint32_t life = 0;
    bool died = false;
    uint32_t next_qpn = 0;
    std::map<CommId, End*> ends;
    std::map<CommId, bool> resolutions;  ///< Our ids, and whether each has ended.
  };
  struct Conditions {
    Conditions(const Options& options, Random random);
    NetworkFaults faults;
    uint32_t nodes;
    uint32_t connections;
    uint32_t backlog;
    bool death;
    bool kills;
    bool claims;
  };

  void Plan(Nanos at, uint32_t node, Do what, CommId id, uint32_t attempt = 0);
  void Start(uint32_t node);
  void Act(const Action& action);
  void Die(Node& node);
  void OnProgram(const Action& action);
  void Connect(uint32_t node, uint32_t attempt);
  void Resolve(uint32_t node, uint32_t attempt);
  void Receive(uint32_t node, std::span<const uint8_t> frame);
  void Flush(uint32_t node);
  void OnEvent(uint32_t node, const nic::cm::Event& event);
  void OnRequest(uint32_t node, const nic::cm::Event& event);
  void OnEndEvent(uint32_t node, End& end, const nic::cm::Event& event);
  nic::cm::QueuePairParameters NewQueuePair(uint32_t node);
  /// The queue pair of another established connection of the node; a new one when there is none.
  nic::cm::QueuePairParameters ClaimedQueuePair(uint32_t node, uint32_t target);
  nic::cm::Route RouteTo(uint32_t from, uint32_t to) const;
  Nanos After(uint32_t most_ms) {
    return now_ + Nanos(int64_t{random_.Below(most_ms * 1000 + 1)} * 1000);
  }
  bool Dawdles() { return random_.Happens(100); }
  void Fail(const std::string& fault);
  Nanos NextMoment() const;
  std::string Judge() const;

  Options options_;
  Random random_;
  Conditions conditions_;
  Network network_;
  Nanos now_;
  uint64_t order_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  /// The attempt of a REQ, by the active side's node and communication ID.
  std::map<std::pair<uint32_t, CommId>, uint32_t> by_request_;
  std::priority_queue<Action> actions_;
  std::string fault_;
  Summary summary_;
};

/// Runs `options`. When that fails, finds the smallest run that also fails. Returns "", or what is
/// wrong and the command that repeats it.
std::string RunAndMinimize(const Options& options, Summary& summary);

}  // namespace uroce::sim::cm
