// SPDX-License-Identifier: Apache-2.0
// Finds out when no worker uses any more what was unpublished. It sends workers nothing, and does
// not wake those that sleep.
#pragma once

#include <cstdint>
#include <memory>

struct rte_rcu_qsbr;

namespace uroce::datapath {

/// The grace periods of all workers that share tables. A worker keeps nothing from a table beyond
/// the turn in which it looked there, says so once per turn, and reads nothing while it sleeps.
class GracePeriods {
 public:
  explicit GracePeriods(uint32_t workers);

  // ---- worker `index` ----
  /// From here on it reads; until Leave.
  void Enter(uint32_t index);
  /// It holds nothing now.
  void Pass(uint32_t index);
  void Leave(uint32_t index);

  // ---- any thread ----
  /// Begins a grace period; HasPassed tells, of its token, when it is over. Whoever asks and is a
  /// worker passes, too.
  uint64_t Start();
  bool HasPassed(uint64_t token) const;

  // ---- control ----
  /// Returns when every worker that was inside has passed or left since the call. Takes as long as
  /// the longest turn.
  void Wait();

 private:
  struct Free {
    void operator()(rte_rcu_qsbr* state) const;
  };
  std::unique_ptr<rte_rcu_qsbr, Free> state_;
};

}  // namespace uroce::datapath
