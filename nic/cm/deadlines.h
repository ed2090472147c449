// SPDX-License-Identifier: Apache-2.0
// The communications, ordered by their next deadline. Pure.
#pragma once

#include <cstddef>
#include <set>
#include <utility>

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// One deadline an id. Owned by the manager, which says what an id's deadline was before.
class Deadlines {
 public:
  void Move(CommId id, Nanos from, Nanos to) {
    if (from == to) return;
    if (from != kNever) due_.erase({from, id});
    if (to != kNever) due_.insert({to, id});
  }
  Nanos Next() const { return due_.empty() ? kNever : due_.begin()->first; }
  /// Whose is due by `now`; the id 0: nobody's.
  CommId FirstDue(Nanos now) const {
    return !due_.empty() && Next() <= now ? due_.begin()->second : CommId();
  }
  size_t size() const { return due_.size(); }

 private:
  std::set<std::pair<Nanos, CommId>> due_;
};

}  // namespace uroce::nic::cm
