// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/held_dump.h"

#include <rte_mempool.h>

#include <nlohmann/json.hpp>
#include <set>

#include "nic/objects/nic.h"

namespace uroce::nic {

nlohmann::ordered_json HeldJson(const Nic& nic) {
  uint64_t frames = 0;
  const std::set<rte_mempool*> pools(nic.pools().begin(), nic.pools().end());  // Nodes share one.
  for (const rte_mempool* pool : pools) frames += rte_mempool_in_use_count(pool);
  return {{"qpns", nic.qpns_held()},
          {"keys", nic.keys_held()},
          {"srqns", nic.srq_numbers_held()},
          {"frames", frames}};
}

}  // namespace uroce::nic
