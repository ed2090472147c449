// SPDX-License-Identifier: Apache-2.0
// Finds out when no worker uses an unpublished object any more. It sends workers no messages, and
// does not wake those that sleep.
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
  /// The worker may read tables from here on, until Leave.
  void Enter(uint32_t index);
  /// The worker holds nothing of the tables at this moment.
  void Pass(uint32_t index);
  void Leave(uint32_t index);

  // ---- any thread ----
  /// Begins a grace period and returns its token. HasPassed tells when it is over. A worker that
  /// calls Start must pass as well.
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
