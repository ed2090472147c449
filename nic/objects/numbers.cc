// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/numbers.h"

#include <algorithm>

#include "pipeline/base/types.h"

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
