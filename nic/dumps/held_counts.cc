// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/held_counts.h"

#include "nic/objects/nic.h"

namespace uroce::nic {

std::vector<NamedCount> HeldCounts(const Nic& nic) {
  std::vector<NamedCount> counts;
  for (const Numbers::Held& held : nic.numbers().held()) counts.push_back({held.name, held.count});
  counts.push_back({"frames", nic.workers().frames_in_use()});
  return counts;
}

}  // namespace uroce::nic
