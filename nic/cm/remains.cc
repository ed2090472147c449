// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/remains.h"

namespace uroce::nic::cm {

void Remains::Add(CommId id, const Account& account) {
  if (!places_.try_emplace(id.value(), Place{last_turn_ + 1, account}).second) return;
  all_.emplace(++last_turn_, id);
  if (account.program == 0) return;
  of_program_[account.program].emplace(last_turn_, id);
  of_user_[account.user].emplace(last_turn_, id);
}

void Remains::Remove(CommId id) {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  all_.erase(place.turn);
  if (place.account.program == 0) return;
  RemoveFrom(of_program_, place.account.program, place.turn);
  RemoveFrom(of_user_, place.account.user, place.turn);
}

void Remains::RemoveFrom(Orders& orders, uint32_t key, uint64_t turn) {
  const auto found = orders.find(key);
  found->second.erase(turn);
  if (found->second.empty()) orders.erase(found);
}

}  // namespace uroce::nic::cm
