// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/balancer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "nic/base/log.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program.h"
#include "nic/objects/queue_pairs.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kMostVainLooks = 5;

// What a packet and a byte cost a worker, about: only the ratio counts.
constexpr uint64_t kPacketNs = 120;
constexpr uint64_t kBytesPerNs = 32;

bool AreJoined(const NicDevice& a, const NicDevice& b) {
  return &a == &b || (a.wire() >= 0 && a.wire() == b.wire());
}

}  // namespace

std::vector<double> Balancer::BusyShares(Nanos now) {
  const datapath::Workers& workers = nic_.workers();
  const bool is_first = busy_ns_.empty();
  busy_ns_.resize(workers.count());
  const auto passed = static_cast<double>((now - std::exchange(looked_at_, now)).count());
  std::vector<double> shares;
  for (uint32_t worker = 0; worker < workers.count(); ++worker) {
    const uint64_t busy = workers.at(worker).counters().busy_ns.load(std::memory_order_relaxed);
    const uint64_t before = std::exchange(busy_ns_[worker], busy);
    const double share = passed <= 0 ? 0 : static_cast<double>(busy - before) / passed;
    shares.push_back(is_first ? 0 : std::min(share, 1.0));
  }
  return shares;
}

Balancer::Ends Balancer::EndsOn(uint32_t worker) {
  Ends ends;
  std::vector<datapath::QueuePair*> queue_pairs;
  datapath::Workers& workers = nic_.workers();
  for (const auto& [id, program] : nic_.programs()) {
    QueuePairs& owner = program->queue_pairs();
    const size_t most = std::min(queue_pairs.size() + kMostOfProgram, kMost);
    owner.ForEachOwn([&](QueuePairObject& object) {
      datapath::QueuePair& qp = object.queue_pair;
      if (queue_pairs.size() >= most) return;
      if (!qp.core().is_reliable() || workers.owners().OwnerOf(qp.qpn()) != worker) return;
      ends.try_emplace(qp.qpn().value(), End{.owner = &owner, .object = &object});
      queue_pairs.push_back(&qp);
    });
  }
  workers.at(worker).RunForEach(queue_pairs, [&](datapath::QueuePair& qp) {
    End& end = ends.at(qp.qpn().value());
    const datapath::QueuePair::Traffic& traffic = qp.traffic();
    end.cost_ns = traffic.sent_packets * kPacketNs + traffic.sent_bytes / kBytesPerNs;
    end.remote = qp.path().remote_qpn;
  });
  return ends;
}

std::vector<Balancer::Connection> Balancer::ConnectionsOf(Ends& ends) const {
  std::vector<Connection> connections;
  for (auto& [qpn, end] : ends) {
    const auto found = ends.find(end.remote.value());
    if (found == ends.end() || qpn >= found->first) continue;
    End& peer = found->second;
    if (peer.remote.value() != qpn || !AreJoined(*end.object->device, *peer.object->device)) {
      continue;
    }
    const auto before = costs_before_.find(qpn);
    const auto peer_before = costs_before_.find(found->first);
    if (before == costs_before_.end() || peer_before == costs_before_.end()) continue;
    const uint64_t cost = end.cost_ns - before->second + peer.cost_ns - peer_before->second;
    connections.push_back({.first = &end, .second = &peer, .cost_ns = static_cast<double>(cost)});
  }
  return connections;
}

bool Balancer::Begin(const Connection& connection, uint32_t worker) {
  datapath::QueuePair& a = connection.first->object->queue_pair;
  datapath::QueuePair& b = connection.second->object->queue_pair;
  if (!nic_.workers().Pause(a, b)) return false;
  attempt_ = Attempt{.numbers = {a.qpn(), b.qpn()}, .worker = worker};
  refused_.insert(a.qpn().value());
  Try();
  return true;
}

std::optional<Balancer::End> Balancer::Find(Qpn qpn) {
  for (const auto& [id, program] : nic_.programs()) {
    QueuePairs& owner = program->queue_pairs();
    if (QueuePairObject* const object = owner.FindOwn(qpn)) {
      return End{.owner = &owner, .object = object};
    }
  }
  return std::nullopt;
}

void Balancer::Try() {
  timer_ = 0;
  const std::optional<End> first = Find(attempt_->numbers[0]);
  const std::optional<End> second = Find(attempt_->numbers[1]);
  const bool are_there = first && second;
  if (are_there && Move(*first, *second, attempt_->worker)) {
    attempt_.reset();
    return;
  }
  if (are_there && --attempt_->tries_left > 0) {
    timer_ = timers_.After(kTryAgain, [this] { Try(); });
    return;
  }
  for (const std::optional<End>& end : {first, second}) {
    if (end) nic_.workers().Resume(end->object->queue_pair);
  }
  attempt_.reset();
}

bool Balancer::Move(const End& first, const End& second, uint32_t worker) {
  const auto rings = first.owner->RingsOn(worker, *first.object);
  const auto peer_rings = second.owner->RingsOn(worker, *second.object);
  if (!rings.ok() || !peer_rings.ok()) return false;
  datapath::QueuePair& a = first.object->queue_pair;
  datapath::QueuePair& b = second.object->queue_pair;
  const uint32_t from = nic_.OwnerOf(a).index();
  if (!nic_.workers().MovePair(a, *rings, b, *peer_rings, worker)) return false;
  for (const QueuePairObject* object : {first.object, second.object}) {
    nic_.numbers().queue_pairs.Move(from, worker, PlaceOf(*object->device));
    nic_.numbers().connections.Move(object->queue_pair.qpn(), worker);
  }
  refused_.erase(a.qpn().value());
  ++moved_;
  LogInfo("queue pairs {} and {} moved from worker {}, which had too much to do, to worker {}",
          a.qpn().value(), b.qpn().value(), from, worker);
  return true;
}

void Balancer::Look(Nanos now) {
  if (nic_.workers().count() > 1) Look(BusyShares(now));
}

void Balancer::Look(std::span<const double> busy) {
  if (attempt_) return;
  const std::optional<WorkerMove> move = FindImbalance(busy, cpus_);
  const bool is_known = move && seen_ && seen_->from == move->from;
  if (!is_known) vain_looks_ = looks_to_pass_ = 0;
  seen_ = move;
  if (!move || looks_to_rest_ == 0) {
    looks_to_rest_ = kRest;
    refused_.clear();
  }
  --looks_to_rest_;
  if (!move) return;
  if (looks_to_pass_ != 0) {
    --looks_to_pass_;
    return;
  }
  Ends ends = EndsOn(move->from);
  std::vector<Connection> connections;
  if (is_known) connections = ConnectionsOf(ends);
  costs_before_.clear();
  for (const auto& [qpn, end] : ends) costs_before_[qpn] = end.cost_ns;
  std::vector<double> costs;
  for (const Connection& connection : connections) costs.push_back(connection.cost_ns);
  for (const size_t index : RankMoves(costs, busy[move->from], busy[move->to])) {
    const Qpn number = connections[index].first->object->queue_pair.qpn();
    if (refused_.contains(number.value()) || !Begin(connections[index], move->to)) continue;
    seen_.reset();
    return;
  }
  if (!is_known) return;
  vain_looks_ = std::min(vain_looks_ + 1, kMostVainLooks);
  looks_to_pass_ = (1u << vain_looks_) - 1;
}

}  // namespace uroce::nic
