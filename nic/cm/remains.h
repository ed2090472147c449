// SPDX-License-Identifier: Apache-2.0
// What is left of communications whose programs have given up their ids: a time wait, a DREQ that
// waits for its answer, an answer about a service that is kept. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// For whom a communication counts.
struct Account {
  uint32_t program = 0;  ///< 0: for none.
  uint32_t user = 0;
};

/// Remains in the order in which they came, of all and of each account. One thread.
class Remains {
 public:
  /// For a number that is there already nothing changes.
  void Add(CommId id, const Account& account);
  void Remove(CommId id);

  /// The number of the oldest remains, 0 if there is none.
  CommId Oldest() const { return First(all_); }
  CommId OldestOfProgram(uint32_t program) const { return FirstOf(of_program_, program); }
  CommId OldestOfUser(uint32_t user) const { return FirstOf(of_user_, user); }
  size_t size() const { return all_.size(); }

 private:
  using Order = std::map<uint64_t, CommId>;
  using Orders = absl::flat_hash_map<uint32_t, Order>;
  struct Place {
    uint64_t turn;
    Account account;
  };

  static CommId First(const Order& order) {
    return order.empty() ? CommId() : order.begin()->second;
  }
  static CommId FirstOf(const Orders& orders, uint32_t key) {
    const auto found = orders.find(key);
    return found == orders.end() ? CommId() : First(found->second);
  }
  static void RemoveFrom(Orders& orders, uint32_t key, uint64_t turn);

  uint64_t last_turn_ = 0;
  absl::flat_hash_map<uint32_t, Place> places_;  ///< By number.
  Order all_;
  Orders of_program_;
  Orders of_user_;
};

inline void Remains::Add(CommId id, const Account& account) {
  if (!places_.try_emplace(id.value(), Place{last_turn_ + 1, account}).second) return;
  all_.emplace(++last_turn_, id);
  if (account.program == 0) return;
  of_program_[account.program].emplace(last_turn_, id);
  of_user_[account.user].emplace(last_turn_, id);
}

inline void Remains::Remove(CommId id) {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  all_.erase(place.turn);
  if (place.account.program == 0) return;
  RemoveFrom(of_program_, place.account.program, place.turn);
  RemoveFrom(of_user_, place.account.user, place.turn);
}

inline void Remains::RemoveFrom(Orders& orders, uint32_t key, uint64_t turn) {
  const auto found = orders.find(key);
  found->second.erase(turn);
  if (found->second.empty()) orders.erase(found);
}

}  // namespace uroce::nic::cm
