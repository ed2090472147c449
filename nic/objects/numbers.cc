// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/numbers.h"

#include <algorithm>

#include "pipeline/base/types.h"

namespace uroce::nic {

uint32_t QueuePairNumbers::WorkerFor(std::optional<uint32_t> bound, const Place& place) const {
  if (bound) return *bound;
  if (!place) return static_cast<uint32_t>(std::ranges::min_element(counts_) - counts_.begin());
  // Cables begin at different workers, so that cables with few queue pairs use different ones.
  uint32_t best = place->cable % workers();
  const auto found = counts_on_cables_.find(place->device);
  if (found == counts_on_cables_.end()) return best;
  for (uint32_t i = 1; i < workers(); ++i) {
    const uint32_t worker = (place->cable + i) % workers();
    if (found->second[worker] < found->second[best]) best = worker;
  }
  return best;
}

uint32_t QueuePairNumbers::Take(uint32_t worker, Nanos now, const Place& place) {
  const uint32_t qpn = pool_.Take(
      now, {.first = FirstQpnOf(worker, workers()), .end = FirstQpnOf(worker + 1, workers())});
  if (qpn == 0) return 0;
  ++counts_[worker];
  if (place) ++counts_on_cables_.try_emplace(place->device, workers()).first->second[worker];
  return qpn;
}

void QueuePairNumbers::Release(Qpn qpn, Nanos now, const Place& place) {
  const uint32_t worker = OwnerOf(qpn, workers());
  --counts_[worker];
  if (place) --counts_on_cables_.at(place->device)[worker];
  pool_.Release(qpn.value(), now);
}

Domain::Use Domain::Begin(Users& its, const Users& other) {
  if (!other.expired()) return nullptr;
  Use use = its.lock();
  if (use == nullptr) its = use = std::make_shared<char>();
  return use;
}

// A program can make so many domains that the numbers wrap around.
std::shared_ptr<Domain> Domains::Make() {
  do {
    last_ = last_ == most_ ? datapath::kNoPd + 1 : last_ + 1;
  } while (!held_.insert(last_).second);
  return {new Domain(last_), [this](Domain* domain) {
            held_.erase(domain->number());
            delete domain;
          }};
}

}  // namespace uroce::nic
