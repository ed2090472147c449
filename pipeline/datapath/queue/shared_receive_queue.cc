// SPDX-License-Identifier: Apache-2.0
// Shared receive queues, those of an extended connection (XRC) domain among them.
#include "pipeline/datapath/queue/shared_receive_queue.h"

#include <algorithm>
#include <cstring>

#include "pipeline/datapath/queue/notification.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {

SharedReceiveQueue::SharedReceiveQueue(const SharedReceiveQueueConfig& config)
    : config_(config), entries_(config.layout, &config.page->produced) {}

PullResult SharedReceiveQueue::Take(Entry& entry) {
  const rings::QueueState state = entries_.Look();
  if (state != rings::QueueState::kReady) return NothingTaken(state);
  entry.slot = entries_.index();
  entry.read = rings::ReadReceiveWqe(entries_.Slot(), config_.max_sge, entry.wqe);
  entries_.Advance();
  rings::StoreRelease(config_.page->consumed.value, entries_.index());
  if (limit_ != 0) CheckLimit();
  return PullResult::kMore;
}

std::optional<SharedReceiveQueue::Waiting> SharedReceiveQueue::LookForWaiting() {
  if (entries_.LookAgain() == rings::QueueState::kCorrupt) return std::nullopt;
  return Waiting{.first = entries_.index(), .count = entries_.seen()};
}

void SharedReceiveQueue::CopyTo(const rings::WorkQueueLayout& layout,
                                const Waiting& waiting) const {
  const uint32_t slot_bytes = std::min(layout.slot_bytes, config_.layout.slot_bytes);
  for (uint32_t i = 0; i < waiting.count; ++i) {
    memcpy(layout.slots + size_t{i} * layout.slot_bytes, entries_.Slot(waiting.first + i),
           slot_bytes);
  }
}

void SharedReceiveQueue::MoveTo(uroce_srq_page* page, const rings::WorkQueueLayout& layout,
                                const Waiting& waiting) {
  const uint32_t taken = std::min(entries_.index() - waiting.first, waiting.count);
  rings::StoreRelease(page->produced.value, waiting.count);
  rings::StoreRelease(page->consumed.value, taken);
  config_.page = page;
  config_.layout = layout;
  entries_ = rings::WorkQueueConsumer(layout, &page->produced, taken);
}

uint32_t SharedReceiveQueue::waiting() const {
  const uint32_t count = rings::LoadAcquire(config_.page->produced.value) - entries_.index();
  return count <= config_.layout.depth ? count : 0;
}

void SharedReceiveQueue::SetLimit(uint32_t limit) {
  limit_ = limit;
  if (limit_ != 0) CheckLimit();
}

// Take reports an impossible index.
void SharedReceiveQueue::CheckLimit() {
  if (entries_.LookAgain() == rings::QueueState::kCorrupt || entries_.seen() >= limit_) return;
  limit_ = 0;
  pending_record_ = config_.async.is_open();
  RetryRecord();
}

void SharedReceiveQueue::RetryRecord() {
  if (!pending_record_) return;
  if (!config_.async.Write(config_.user_handle, kEventSrqLimitReached)) return;
  pending_record_ = false;
  ++async_records_;
}

}  // namespace uroce::datapath
