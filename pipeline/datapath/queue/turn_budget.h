// SPDX-License-Identifier: Apache-2.0
// Limits what the programs of one user make a worker do in one turn. A program asks by a store, as
// often and for as many queue pairs as it likes; work beyond its budget waits for later turns.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::datapath {

/// One amount for each kind of work that has a budget.
struct TurnAmounts {
  uint32_t queue_pairs = 0;  ///< Looked after since they rang. A word of bells counts whole.
  uint32_t works = 0;        ///< Works taken from their queues.
};

/// A turn sends 32 packets per port, so a sender never needs more. A user has the budget of two
/// programs, so that one of many leaves something to the others.
inline constexpr TurnAmounts kTurnOfProgram{.queue_pairs = 64, .works = 128};
inline constexpr TurnAmounts kTurnOfUser{.queue_pairs = 128, .works = 256};

/// The rest of a budget in the turn that was asked for last. Used by one worker.
class TurnBudget {
 public:
  explicit TurnBudget(const TurnAmounts& each_turn) : each_turn_(each_turn) {}

  TurnAmounts& Of(uint64_t turn) {
    if (turn != turn_) left_ = each_turn_;
    turn_ = turn;
    return left_;
  }

 private:
  const TurnAmounts each_turn_;
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
