// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/completion_publisher.h"

#include "pipeline/base/probes.h"
#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/xrc_queues.h"

namespace uroce::datapath {
namespace {

void AddToHistograms(const QueuePair& qp, const transport::Completion& completion, Nanos now) {
  DeviceHistograms& histograms = qp.links().port->histograms();
  if (completion.is_receive) {
    histograms.received_bytes.Add(completion.length_bytes);
  } else {
    const Nanos took = qp.send_lists().SinceTaken(completion.slot, now);
    histograms.completion_ns.Add(static_cast<uint64_t>(took.count()));
  }
}

}  // namespace

bool CompletionPublisher::Publish(QueuePair& qp, const transport::Completion& completion) {
  CompletionRing* ring = completion.is_receive ? qp.config().receive_ring : qp.config().send_ring;
  uint32_t handle = qp.config().handle;
  if (qp.is_target()) [[unlikely]] {
    const SharedReceiveQueue* const queue = qp.config().domain->Find(completion.queue);
    if (queue == nullptr) return true;  // The queue has gone: nobody waits for the completion.
    ring = queue->config().ring;
    handle = queue->config().handle;
  }
  const bool is_first = !ring->in_burst();
  switch (ring->Publish(completion, handle, qp.qpn())) {
    case PublishResult::kOk:
      if (is_first) bursts_.push_back(ring);
      probes::Complete(qp.qpn().value(), completion.wr_id, static_cast<uint32_t>(completion.status),
                       static_cast<uint32_t>(completion.opcode), completion.length_bytes);
      if (completion.status == transport::WcStatus::kSuccess) {
        AddToHistograms(qp, completion, time_.now());
      }
      return true;
    case PublishResult::kInError:
      return false;
    case PublishResult::kOverflow:
      Count(qp.links().port->counters().cq_overflow);
      if (ring->has_pending_records()) retries_.Want(*ring, time_.now());
      FailUsers(*ring);
      if (overflows_ != nullptr) overflows_->OnOverflow(ring->queue());
      return false;  // XRC targets are not among the ring's users.
  }
  return true;
}

bool CompletionPublisher::PublishAll(QueuePair& qp) {
  bool is_well = true;
  transport::Completion completion;
  while (qp.core().PollCompletion(completion)) is_well &= Publish(qp, completion);
  return is_well;
}

void CompletionPublisher::FinishSomeBursts() {
  for (CompletionRing* ring : bursts_) {
    ring->FinishBurst();
    if (ring->queue().config().pollers.any()) [[unlikely]]
      poller_wakes_.Add(*ring, time_.now());
    if (ring->has_pending_records()) retries_.Want(*ring, time_.now());
  }
  bursts_.clear();
}

// Users that complete a work before their turn go to error when they publish it.
void CompletionPublisher::FailUsers(CompletionRing& ring) {
  std::erase(failing_, &ring);
  if (ring.FailUsers()) failing_.push_back(&ring);
}

QueuePair* CompletionPublisher::NextToFail() {
  while (!failing_.empty()) {
    QueuePair* const qp = failing_.back()->NextToFail();
    if (qp != nullptr) return qp;
    failing_.pop_back();
  }
  return nullptr;
}

void CompletionPublisher::Reserve(size_t rings, size_t sources) {
  if (bursts_.capacity() >= rings) return;
  bursts_.reserve(rings * 2);
  failing_.reserve(rings * 2);
  poller_wakes_.Reserve(rings * 2);
  retries_.Reserve(sources * 2);
}

void CompletionPublisher::Remove(CompletionRing* ring) {
  retries_.Remove({.ring = ring});
  poller_wakes_.Remove(ring);
  std::erase(failing_, ring);
}

}  // namespace uroce::datapath
