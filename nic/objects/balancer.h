// SPDX-License-Identifier: Apache-2.0
// Moves connections inside the daemon from a worker that has too much to do to one that has little.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "nic/base/event_loop.h"
#include "nic/objects/balance.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

class Nic;
class QueuePairs;
struct QueuePairObject;

/// Looks at all workers now and then. A connection inside the daemon gets its worker when it is
/// connected, and what it will do shows later: connections that do much may lie on one worker
/// beside idle ones. Control thread.
///
/// A connection that moves pauses until its programs have polled the completions of its former
/// worker, for kTries times kTryAgain at most. One whose programs do not poll stays.
///
/// A look reads counters of up to kMostOfProgram queue pairs of each program, and kMost in all: the
/// control thread has other things to do.
class Balancer {
 public:
  static constexpr Nanos kTryAgain{1'000'000};
  static constexpr int kTries = 20;
  static constexpr uint32_t kRest = 40;
  static constexpr size_t kMostOfProgram = 1024;
  static constexpr size_t kMost = 8192;

  /// `cpus`: that the workers may run on.
  Balancer(Nic& nic, Timers& timers, uint32_t cpus) : nic_(nic), timers_(timers), cpus_(cpus) {}
  ~Balancer() { timers_.Cancel(timer_); }
  Balancer(const Balancer&) = delete;
  Balancer& operator=(const Balancer&) = delete;

  /// Compares what the workers did since the last call, and has at most one connection move. Called
  /// about four times a second.
  void Look(Nanos now);
  /// The same, where `busy` says for each worker in which share of that time it had something to
  /// do.
  void Look(std::span<const double> busy);
  /// How many connections it has moved.
  uint64_t moved() const { return moved_; }

 private:
  /// One end of a connection.
  struct End {
    QueuePairs* owner = nullptr;
    QueuePairObject* object = nullptr;
    uint64_t cost_ns = 0;  ///< Of all that it has sent so far, about.
    Qpn remote;
  };
  using Ends = absl::flat_hash_map<uint32_t, End>;  ///< By number.
  struct Connection {
    End* first = nullptr;
    End* second = nullptr;
    double cost_ns = 0;  ///< Since the last look.
  };
  /// A connection that is paused, and moves soon.
  struct Attempt {
    std::array<Qpn, 2> numbers;
    uint32_t worker = 0;
    int tries_left = kTries;
  };

  std::vector<double> BusyShares(Nanos now);
  /// The ends on a worker whose peers may be on the same one.
  Ends EndsOn(uint32_t worker);
  std::vector<Connection> ConnectionsOf(Ends& ends) const;
  /// Pauses the connection. False: it cannot move.
  [[nodiscard]] bool Begin(const Connection& connection, uint32_t worker);
  /// The end with this number, which may have gone since its connection was paused.
  std::optional<End> Find(Qpn qpn);
  void Try();
  [[nodiscard]] bool Move(const End& first, const End& second, uint32_t worker);

  Nic& nic_;
  Timers& timers_;
  const uint32_t cpus_;
  uint64_t moved_ = 0;
  std::optional<Attempt> attempt_;
  Timers::Id timer_ = 0;
  Nanos looked_at_{0};
  std::vector<uint64_t> busy_ns_;  ///< Of each worker, at `looked_at_`.
  // While one worker stays the busiest: what its queue pairs had cost at the look before.
  std::optional<WorkerMove> seen_;
  absl::flat_hash_map<uint32_t, uint64_t> costs_before_;
  /// Connections that did not move when they were to, by the number of one end: others have their
  /// turn. Forgotten after kRest looks, and when no worker needs help.
  absl::flat_hash_set<uint32_t> refused_;
  uint32_t looks_to_rest_ = 0;
  // Looks in vain come less and less often.
  uint32_t looks_to_pass_ = 0;
  uint32_t vain_looks_ = 0;
};

}  // namespace uroce::nic
