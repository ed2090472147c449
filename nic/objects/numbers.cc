// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/numbers.h"

#include <algorithm>

#include "pipeline/base/steering.h"

namespace uroce::nic {

uint32_t QueuePairNumbers::WorkerFor(std::optional<uint32_t> bound) const {
  if (bound) return *bound;
  return static_cast<uint32_t>(std::ranges::min_element(counts_) - counts_.begin());
}

uint32_t QueuePairNumbers::Take(uint32_t worker, Nanos now) {
  const uint32_t qpn = pool_.Take(
      now, {.first = FirstQpnOf(worker, workers()), .end = FirstQpnOf(worker + 1, workers())});
  if (qpn != 0) ++counts_[worker];
  return qpn;
}

void QueuePairNumbers::Release(Qpn qpn, Nanos now) {
  --counts_[OwnerOf(qpn, workers())];
  pool_.Release(qpn.value(), now);
}

}  // namespace uroce::nic
