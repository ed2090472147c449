// SPDX-License-Identifier: Apache-2.0
// The objects that a worker has been given: ports, queue pairs by their numbers, shared receive
// queues.
#include "pipeline/datapath/worker/objects.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/work_queues.h"

namespace uroce::datapath {

namespace {

/// Calls `visit` with each ring that the queue pair completes on, once. An XRC target has none.
template <typename Visitor>
void ForEachRing(const QueuePairConfig& config, Visitor&& visit) {
  if (config.send_ring != nullptr) visit(*config.send_ring);
  if (config.receive_ring == nullptr || config.receive_ring == config.send_ring) return;
  visit(*config.receive_ring);
}

}  // namespace

DevicePort& Objects::AddDevice(Device* device, CrossWorkerLink& cross_worker, Taps& taps) {
  return ports_.Add(std::make_unique<DevicePort>(device, &cross_worker, &taps));
}

void Objects::Add(QueuePair& qp, const SessionList& sessions) {
  const QueuePairConfig& its = qp.config();
  DevicePort* const port = ports_.Find(*its.device);
  assert(port != nullptr);
  WorkerSession* const program = sessions.Find(its.session);
  assert(program != nullptr);
  qp.set_home(
      {.port = port, .program = program, .flow = port->FlowOf(its.session, its.session->rate())});
  std::vector<QueuePair*>& slots = program->slots;
  if (slots.size() <= its.doorbell_slot) slots.resize(its.doorbell_slot + 1);
  qp.next_of_slot() = std::exchange(slots[its.doorbell_slot], &qp);
  rings::StoreRelaxed(its.page->worker.value, worker_);
  queue_pairs_.Insert(its.qpn, &qp);
  if (qp.receive_source().is_target()) its.domain->targets().push_back(&qp);
  ForEachRing(its, [&qp](CompletionRing& ring) { ring.AddUser(&qp); });
}

void Objects::Remove(QueuePair& qp) {
  const QueuePairConfig& its = qp.config();
  queue_pairs_.Erase(its.qpn);
  if (qp.receive_source().is_target()) std::erase(its.domain->targets(), &qp);
  ForEachRing(its, [&qp](CompletionRing& ring) { ring.ForgetUser(&qp); });
  QueuePair** link = &qp.program().slots[its.doorbell_slot];
  while (*link != nullptr && *link != &qp) link = &(*link)->next_of_slot();
  if (*link == &qp) *link = qp.next_of_slot();
}

void Objects::Add(SharedReceiveQueue& queue) {
  shared_queues_.push_back(&queue);
  XrcQueues* const domain = queue.config().domain;
  if (domain != nullptr) domain->Insert(queue.config().number, &queue);
}

void Objects::Remove(SharedReceiveQueue& queue) {
  std::erase(shared_queues_, &queue);
  XrcQueues* const domain = queue.config().domain;
  if (domain != nullptr) domain->Erase(queue.config().number);
}

void Objects::SetPath(QueuePair& qp, const Path& path) const {
  qp.port().superframes().Close(qp);
  const bool is_in_daemon = std::ranges::any_of(
      ports_, [&](const auto& port) { return port->device().mac == path.destination_mac; });
  const bool is_same = path.destination_mac == qp.config().device->mac;
  qp.set_path(path, is_same        ? PeerPlace::kSameDevice
                    : is_in_daemon ? PeerPlace::kInDaemon
                                   : PeerPlace::kElsewhere);
}

// Without an address vector a queue pair has no peer, and no path that could change.
void Objects::RewritePath(QueuePair& qp, Worker::PathRewriter rewrite) const {
  if (qp.path().destination == Gid{}) return;
  Path path = qp.path();
  if (rewrite(qp, path)) SetPath(qp, path);
}

void Objects::FollowMac(const Device& device, const Mac& old) const {
  const auto follow = [&](const QueuePair& qp, Path& path) {
    const bool from_here = qp.config().device == &device;
    const bool to_here = path.destination_mac == old;
    if (from_here) path.source_mac = device.mac;
    if (to_here) path.destination_mac = device.mac;
    return from_here || to_here;
  };
  queue_pairs_.ForEach([&](QueuePair& qp) { RewritePath(qp, follow); });
}

}  // namespace uroce::datapath
