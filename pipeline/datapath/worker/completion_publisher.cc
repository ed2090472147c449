// SPDX-License-Identifier: Apache-2.0
// Publishes completions and their records, wakes who sleeps for them, and tries records again whose
// socket was full.
#include "pipeline/datapath/worker/completion_publisher.h"

#include <algorithm>

#include "pipeline/base/observation.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/work_queues.h"

namespace uroce::datapath {

void RecordRetries::Want(QueuePair& queue_pair, Nanos now) {
  if (!queue_pair.lists().Enter(WorkerList::kRetried)) return;
  Add({.queue_pair = &queue_pair}, now, kRecordRetry);
}

void RecordRetries::Want(CompletionRing& ring, Nanos now) {
  if (ring.is_retried()) return;
  ring.set_retried(true);
  Add({.ring = &ring}, now, ring.RetryAfter());
}

void RecordRetries::Want(SharedReceiveQueue& queue, Nanos now) {
  if (queue.is_retried()) return;
  queue.set_retried(true);
  Add({.shared_queue = &queue}, now, kRecordRetry);
}

void RecordRetries::Add(const RecordSource& source, Nanos now, Nanos wait) {
  entries_.push_back({.source = source, .at = now + wait, .wait = wait});
  next_ = std::min(next_, now + wait);
}

void RecordRetries::Remove(const RecordSource& source) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.source == source; });
}

void RecordRetries::Pass(Nanos now) {
  Nanos earliest = kNever;
  int writes = 0;
  const size_t looks = std::min(entries_.size(), kMaxLooks);
  for (size_t look = 0; look < looks && writes < kMaxWrites; ++look) {
    if (first_ >= entries_.size()) first_ = 0;
    Entry& entry = entries_[first_];
    if (entry.at <= now) {
      ++writes;
      if (Try(entry, now)) {
        entry = entries_.back();
        entries_.pop_back();
        continue;
      }
    }
    earliest = std::min(earliest, entry.at);
    ++first_;
  }
  const bool is_whole = entries_.size() <= kMaxLooks && writes < kMaxWrites;
  next_ = entries_.empty() ? kNever : is_whole ? earliest : now + kBetweenPasses;
}

bool RecordRetries::Try(Entry& entry, Nanos now) {
  const auto& [queue_pair, ring, shared_queue] = entry.source;
  entry.wait = std::clamp(entry.wait * 2, kRecordRetry, kLongest);
  if (queue_pair != nullptr) {
    queue_pair->reports().RetryRecords();
    entry.at = now + entry.wait;
    if (queue_pair->reports().has_pending_records()) return false;
    queue_pair->lists().Leave(WorkerList::kRetried);
    return true;
  }
  if (shared_queue != nullptr) {
    shared_queue->RetryRecord();
    shared_queue->set_retried(shared_queue->has_pending_record());
    entry.at = now + entry.wait;
    return !shared_queue->has_pending_record();
  }
  ring->RetryRecords();
  ring->set_retried(ring->has_pending_records());
  if (ring->is_held()) entry.wait = ring->RetryAfter();
  entry.at = now + entry.wait;
  return !ring->has_pending_records();
}

void PollerWakes::WakeAll() {
  for (CompletionRing* ring : rings_) {
    ring->set_waking(false);
    ring->queue().config().pollers.Wake();
  }
  rings_.clear();
}

void PollerWakes::Remove(CompletionRing* ring) {
  std::erase(rings_, ring);
  ring->set_waking(false);
}

namespace {

void AddToHistograms(const QueuePair& qp, const transport::Completion& completion, Nanos now) {
  DeviceHistograms& histograms = qp.port().histograms();
  if (completion.is_receive) {
    histograms.received_bytes.Add(completion.length_bytes);
  } else {
    const Nanos took = qp.works().send_lists().SinceTaken(completion.slot, now);
    histograms.completion_ns.Add(static_cast<uint64_t>(took.count()));
  }
}

}  // namespace

bool CompletionPublisher::Publish(QueuePair& qp, const transport::Completion& completion) {
  CompletionRing* ring = completion.is_receive ? qp.config().receive_ring : qp.config().send_ring;
  uint32_t handle = qp.config().handle;
  if (qp.receive_source().is_target()) [[unlikely]] {
    const SharedReceiveQueue* const queue = qp.config().domain->Find(completion.queue);
    if (queue == nullptr) return true;  // The queue has gone, and the completion with it.
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
      Count(qp.port().counters().cq_overflow);
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
