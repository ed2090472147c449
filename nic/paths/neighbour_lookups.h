// SPDX-License-Identifier: Apache-2.0
// Neighbour lookups for many callers, each with its own timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "nic/base/fair_share.h"
#include "nic/base/timers.h"
#include "nic/net/followed_paths.h"
#include "nic/paths/neighbours.h"

namespace uroce::nic {

/// A thousand connections to one host share one lookup. Control thread.
class NeighbourLookups {
 public:
  using Id = uint64_t;
  /// The status is OK, or the error of Neighbours::Find.
  using Handler = std::function<void(const absl::Status&)>;
  /// Destinations that are looked up at a time, shared fairly between users; each costs the control
  /// thread some 20 us per check. Requests above that fail at once, as if nobody answered.
  static constexpr size_t kMostPaths = 1536;

  NeighbourLookups(Timers& timers, Neighbours& neighbours)
      : timers_(timers), neighbours_(neighbours) {}
  ~NeighbourLookups();
  NeighbourLookups(const NeighbourLookups&) = delete;
  NeighbourLookups& operator=(const NeighbourLookups&) = delete;

  /// `user`: the user on whose behalf the lookup is. The handler is called once, unless cancelled,
  /// and never from within this call.
  Id Start(const PathKey& path, uint32_t user, Nanos timeout, Handler handler);
  void Cancel(Id id);

 private:
  static constexpr Nanos kSweep{10'000'000};  ///< The most that a timeout is late.
  static constexpr Nanos kPatience{60'000'000'000};

  struct Waiter {
    PathKey path;
    Nanos deadline;
    Handler handler;
    bool answered = false;  ///< Its answer is in `answers_`.
  };
  struct Asked {
    uint32_t user = 0;  ///< The user who asked first.
    Neighbours::Id lookup = 0;
    std::set<Id> waiters;
  };

  void Ask(const PathKey& path, uint32_t user, Id id);
  void Answer(Id id, const absl::Status& status);
  void Deliver();
  void OnAnswer(const PathKey& path, const absl::Status& status);
  void Leave(const Waiter& waiter, Id id);
  void SweepLater();
  void Sweep();

  Timers& timers_;
  Neighbours& neighbours_;
  Id last_id_ = 0;
  std::map<Id, Waiter> waiters_;
  std::map<PathKey, Asked> asked_;
  FairShare<uint32_t> shares_{kMostPaths};  ///< Of the entries in `asked_`, by user.
  std::set<std::pair<Nanos, Id>> deadlines_;
  std::map<Id, absl::Status> answers_;  ///< To be delivered in the next turn.
  Timers::Id delivery_ = 0;
  Timers::Id sweep_ = 0;
};

}  // namespace uroce::nic
