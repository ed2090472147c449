// SPDX-License-Identifier: Apache-2.0
// Orders the communications by their next deadline. Pure.
#pragma once

#include <cstddef>
#include <set>
#include <utility>

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// One deadline per id. Owned by the manager, which passes the previous deadline of an id.
class Deadlines {
 public:
  void Move(CommId id, Nanos from, Nanos to) {
    if (from == to) return;
    if (from != kNever) due_.erase({from, id});
    if (to != kNever) due_.insert({to, id});
  }
  Nanos Next() const { return due_.empty() ? kNever : due_.begin()->first; }
  /// The id whose deadline is first and not later than `now`; id 0 if there is none.
  CommId FirstDue(Nanos now) const {
    return !due_.empty() && Next() <= now ? due_.begin()->second : CommId();
  }
  size_t size() const { return due_.size(); }

 private:
  std::set<std::pair<Nanos, CommId>> due_;
};

}  // namespace uroce::nic::cm
