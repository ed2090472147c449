// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/record_retries.h"

#include <algorithm>

#include "pipeline/datapath/queue/completion_ring.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/record_socket.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"

namespace uroce::datapath {

void RecordRetries::Want(QueuePair& queue_pair, Nanos now) {
  if (!queue_pair.links().lists.Enter(WorkerList::kRetried)) return;
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
    queue_pair->RetryRecords();
    entry.at = now + entry.wait;
    if (queue_pair->has_pending_records()) return false;
    queue_pair->links().lists.Leave(WorkerList::kRetried);
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

}  // namespace uroce::datapath
