// SPDX-License-Identifier: Apache-2.0
// Limits what the programs of one user make a worker do in one turn. A program asks by a store, as
// often and for as many queue pairs as it likes; work beyond its budget waits for later turns.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::datapath {

/// One amount for each kind of work that has a budget.
struct TurnAmounts {
  uint32_t queue_pairs = 0;  ///< Looked after since they rang.
  uint32_t works = 0;        ///< Works taken from their queues.
};

/// A turn sends 32 packets per port, so a sender never needs more. A user has the budget of two
/// programs, so that one of many leaves something to the others.
inline constexpr TurnAmounts kTurnOfProgram{.queue_pairs = 64, .works = 128};
inline constexpr TurnAmounts kTurnOfUser{.queue_pairs = 128, .works = 256};

/// The rest of a budget in the turn that was asked for last. Used by one worker.
///
/// A doorbell that says nothing costs its program a store, and the worker a look at cold memory. So
/// whoever rings mostly such ones has fewer queue pairs looked after in a turn, down to a
/// sixteenth.
class TurnBudget {
 public:
  explicit TurnBudget(const TurnAmounts& full) : full_(full), each_turn_(full) {}

  /// Tells that `rung` doorbells were looked at, behind `idle` of which nothing was posted. The
  /// next turns have half the queue pairs if these are more than three of four, else twice as many.
  void NoteBells(uint32_t rung, uint32_t idle) {
    if (rung == 0) return;
    uint32_t& each = each_turn_.queue_pairs;
    each = idle > rung - rung / 4 ? std::max(each / 2, full_.queue_pairs / 16)
                                  : std::min(each * 2, full_.queue_pairs);
  }

  TurnAmounts& Of(uint64_t turn) {
    if (turn != turn_) left_ = each_turn_;
    turn_ = turn;
    return left_;
  }

 private:
  const TurnAmounts full_;
  TurnAmounts each_turn_;
  TurnAmounts left_;
  uint64_t turn_ = 0;  ///< The first turn is 1.
};

/// Takes up to `wanted` of `what` from both budgets, and returns how much that is.
inline uint32_t Spend(TurnAmounts& program, TurnAmounts& user, uint32_t TurnAmounts::*what,
                      uint32_t wanted) {
  const uint32_t spent = std::min({wanted, program.*what, user.*what});
  program.*what -= spent;
  user.*what -= spent;
  return spent;
}

}  // namespace uroce::datapath
