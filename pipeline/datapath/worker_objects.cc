// SPDX-License-Identifier: Apache-2.0
// Objects that come, change and go, between two turns.
#include <algorithm>
#include <cassert>
#include <utility>

#include "drivers/port.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/datapath/xrc_domain.h"

namespace uroce::datapath {

using transport::QpState;
using Kind = ParkedKind;
namespace {

/// Calls `visit` with each ring that the queue pair completes on, once. An XRC target has none.
template <typename Visitor>
void ForEachRing(const QueuePairConfig& config, Visitor&& visit) {
  if (config.send_ring != nullptr) visit(*config.send_ring);
  if (config.receive_ring == nullptr || config.receive_ring == config.send_ring) return;
  visit(*config.receive_ring);
}

}  // namespace

void Worker::Impl::AddSession(Session* session) {
  sessions.Add(session, now);
  const int fd = session->wake_fd(config.index);
  if (fd >= 0) sleeper.WatchEvents(fd);
}

void Worker::Impl::RemoveSession(Session* session) {
  sessions.Remove(session);
  const int fd = session->wake_fd(config.index);
  if (fd >= 0) sleeper.Unwatch(fd);
  for (const auto& port : ports) port->ForgetSession(session);
}

void Worker::Impl::AddQueuePair(QueuePair* qp) {
  QueuePair::Links& links = qp->links();
  const QueuePairConfig& its = qp->config();
  for (const auto& port : ports) {
    if (&port->device() == its.device) links.port = port.get();
  }
  assert(links.port != nullptr);
  links.session_flow = links.port->FlowOf(its.session);
  links.session = sessions.Find(its.session);
  assert(links.session != nullptr);
  std::vector<QueuePair*>& slots = links.session->slots;
  if (slots.size() <= its.doorbell_slot) slots.resize(its.doorbell_slot + 1);
  links.next_of_slot = std::exchange(slots[its.doorbell_slot], qp);
  queue_pairs.Insert(its.qpn, qp);
  if (qp->is_target()) its.domain->targets().push_back(qp);
  ForEachRing(its, [qp](CompletionRing& ring) { ring.AddUser(qp); });
  ReserveLists();
}

// The lists of a turn never allocate on the way of a packet.
void Worker::Impl::ReserveLists() {
  const size_t most = queue_pairs.size();
  if (touched.capacity() < most) {
    for (auto* list : {&rung, &touched, &received, &held}) list->reserve(most * 2);
  }
  const size_t most_rings = most * 2 + shared_queues.size();
  if (bursts.capacity() < most_rings) {
    bursts.reserve(most_rings * 2);
    failing_rings.reserve(most_rings * 2);
    record_retries.Reserve((most + most_rings + shared_queues.size()) * 2);
  }
}

void Worker::Impl::RemoveQueuePair(QueuePair* qp) {
  AcknowledgeAll(*qp);
  queue_pairs.Erase(qp->qpn());
  if (qp->is_target()) std::erase(qp->config().domain->targets(), qp);
  ForEachRing(qp->config(), [qp](CompletionRing& ring) { ring.ForgetUser(qp); });
  timers.Remove(qp->links().timer);
  StopSending(*qp);
  AbandonParked(*qp);
  DropKept(*qp);
  if (std::erase(ended_flights, qp) != 0) HandOver(*qp);
  for (auto* list : {&touched, &received, &held}) std::erase(*list, qp);
  ForgetPostponed(*qp);
  if (qp->links().records_wait) record_retries.Remove({.queue_pair = qp});
  QueuePair** link = &qp->links().session->slots[qp->config().doorbell_slot];
  while (*link != nullptr && *link != qp) link = &(*link)->links().next_of_slot;
  if (*link == qp) *link = qp->links().next_of_slot;
}

void Worker::Impl::AddSharedReceiveQueue(SharedReceiveQueue* queue) {
  shared_queues.push_back(queue);
  ReserveLists();
  XrcDomain* const domain = queue->config().domain;
  if (domain != nullptr) domain->Insert(queue->config().number, queue);
}

void Worker::Impl::RemoveSharedReceiveQueue(SharedReceiveQueue* queue) {
  std::erase(shared_queues, queue);
  record_retries.Remove({.shared_queue = queue});
  XrcDomain* const domain = queue->config().domain;
  if (domain == nullptr) return;
  domain->Erase(queue->config().number);
  for (QueuePair* qp : domain->targets()) LeaveQueue(*qp, *queue);
}

void Worker::Impl::Modify(QueuePair* qp, QpState state, const Attributes& attributes,
                          const Path* path) {
  if (path != nullptr) SetPath(*qp, *path);
  ParkedWork& parked = qp->parked();
  if (qp->is_parked() && state != QpState::kReset) {
    parked.modification = {.state = state, .attributes = attributes};
    qp->PublishState(state);
    return;
  }
  if (state == QpState::kReset) {
    const bool in_effect =
        qp->links().parked == Kind::kEffect || qp->links().parked == Kind::kInvalidate;
    AbandonParked(*qp);
    // The transport wants every effect ended; what it makes of this one it forgets at once.
    if (in_effect) qp->core().OnEffectDone(transport::EffectOutcome::kDone, 0, now);
  }
  ApplyModification(*qp, state, attributes);
}

void Worker::Impl::SetPath(QueuePair& qp, const Path& path) {
  qp.set_path(path);
  qp.links().to_self = path.destination_mac == qp.config().device->mac;
  qp.links().in_daemon = std::ranges::any_of(
      ports, [&](const auto& port) { return port->device().mac == path.destination_mac; });
}

// A queue pair without an address vector has no peer, and no path that could change.
void Worker::Impl::RewritePaths(PathRewriter rewrite) {
  queue_pairs.ForEach([&](QueuePair& qp) {
    if (qp.path().destination == Gid{}) return;
    Path path = qp.path();
    if (rewrite(qp, path)) SetPath(qp, path);
  });
}

// Attributes that wait for the end of a copy were made before this.
void Worker::Impl::SetSelectiveRepeat(AgreementOf agreement) {
  queue_pairs.ForEach([&](QueuePair& qp) {
    if (!qp.core().is_reliable() || qp.path().destination == Gid{}) return;
    const std::optional<bool> agreed = agreement(qp);
    if (!agreed) return;
    qp.core().reliable().SetSelectiveRepeat(*agreed);
    if (qp.is_parked() && qp.parked().modification) {
      qp.parked().modification->attributes.selective_repeat = *agreed;
    }
    Touch(qp);
  });
}

void Worker::Impl::FollowMac(const Device& device, const Mac& old) {
  RewritePaths([&](const QueuePair& qp, Path& path) {
    const bool from_here = qp.config().device == &device;
    const bool to_here = path.destination_mac == old;
    if (from_here) path.source_mac = device.mac;
    if (to_here) path.destination_mac = device.mac;
    return from_here || to_here;
  });
}

// Its program may have seen the requests complete, and no answer leaves afterwards.
void Worker::Impl::AcknowledgeAll(QueuePair& qp) {
  while (Acknowledge(qp)) {
  }
}

void Worker::Impl::ApplyModification(QueuePair& qp, QpState state, const Attributes& attributes) {
  if (state == QpState::kErr || state == QpState::kReset) AcknowledgeAll(qp);
  qp.core().Modify(state, attributes);
  if (state == QpState::kReset) {
    qp.DiscardPosted();
    StopSending(qp);
  }
  if (state == QpState::kReset || state == QpState::kErr) DropKept(qp);
  qp.PublishState(qp.core().state());
  qp.links().sends_wait = true;
  Touch(qp);
}

}  // namespace uroce::datapath
