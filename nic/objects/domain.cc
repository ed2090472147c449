// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/domain.h"

namespace uroce::nic {

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
