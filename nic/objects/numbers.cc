// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/numbers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "pipeline/base/types.h"

namespace uroce::nic {

uint32_t QueuePairNumbers::WorkerFor(std::optional<uint32_t> bound, const NicPlace& place) const {
  if (bound) return *bound;
  if (place.end) return WorkerAt(*place.end);
  auto best = static_cast<uint32_t>(std::countr_zero(place.drivers));
  for (uint32_t worker = best + 1; worker < workers(); ++worker) {
    if ((place.drivers & SetOf(worker)) != 0 && counts_[worker] < counts_[best]) best = worker;
  }
  return best;
}

uint32_t QueuePairNumbers::WorkerAt(const NicPlace::CableEnd& end) const {
  // Cables begin at different workers, so that cables with few queue pairs use different ones.
  uint32_t best = end.cable % workers();
  const auto found = counts_on_cables_.find(end.device);
  if (found == counts_on_cables_.end()) return best;
  for (uint32_t i = 1; i < workers(); ++i) {
    const uint32_t worker = (end.cable + i) % workers();
    if (found->second[worker] < found->second[best]) best = worker;
  }
  return best;
}

uint32_t QueuePairNumbers::Take(uint32_t worker, Nanos now, const NicPlace& place) {
  const uint32_t qpn = pool_.Take(
      now, {.first = FirstQpnOf(worker, workers()), .end = FirstQpnOf(worker + 1, workers())});
  if (qpn == 0) return 0;
  Count(worker, place, 1);
  return qpn;
}

void QueuePairNumbers::Move(uint32_t from, uint32_t to, const NicPlace& place) {
  Count(from, place, -1);
  Count(to, place, 1);
}

void QueuePairNumbers::Release(Qpn qpn, uint32_t worker, Nanos now, const NicPlace& place) {
  Count(worker, place, -1);
  pool_.Release(qpn.value(), now);
}

void QueuePairNumbers::Count(uint32_t worker, const NicPlace& place, int32_t change) {
  counts_[worker] += static_cast<uint32_t>(change);
  if (!place.end) return;
  counts_on_cables_.try_emplace(place.end->device, workers()).first->second[worker] +=
      static_cast<uint32_t>(change);
}

void ConnectionPlacement::Remove(Qpn qpn) {
  const auto found = ends_.find(qpn.value());
  if (found == ends_.end()) return;
  if (found->second.is_connected) --connected_[found->second.worker];
  ends_.erase(found);
}

bool ConnectionPlacement::MayMove(Qpn qpn) const {
  const auto found = ends_.find(qpn.value());
  return found != ends_.end() && found->second.may_move;
}

uint32_t ConnectionPlacement::WorkerFor(Qpn own, uint32_t worker, Qpn remote,
                                        uint32_t remote_worker) const {
  if (own == remote) return worker;
  // A remote end that is to be connected later follows this one.
  if (!MayMove(remote)) return remote_worker;
  const auto least = std::ranges::min_element(connected_);
  return connected_[worker] == *least ? worker : static_cast<uint32_t>(least - connected_.begin());
}

void ConnectionPlacement::Connect(Qpn own, uint32_t worker) {
  ends_.at(own.value()) = {.may_move = false, .is_connected = true, .worker = worker};
  ++connected_[worker];
}

void ConnectionPlacement::Move(Qpn own, uint32_t worker) {
  End& end = ends_.at(own.value());
  if (!end.is_connected) return;
  --connected_[std::exchange(end.worker, worker)];
  ++connected_[worker];
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
