// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/event_stream.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

constexpr size_t kRecordBytes = sizeof(uroce_event_record);

bool HasEnded(EventTable& table, const uroce_event_record& record) {
  EventKind kind;
  return KindOfEvent(record.event_type, &kind) && table.HasEnded(record.element);
}

/// How many records on `fd` are of ended objects; 0 also when the records cannot be seen.
uint32_t CountEnded(EventTable& table, int fd) {
  int waiting_bytes = 0;
  if (ioctl(fd, SIOCINQ, &waiting_bytes) != 0 || waiting_bytes <= 0) return 0;
  auto* records = static_cast<uroce_event_record*>(malloc(static_cast<size_t>(waiting_bytes)));
  if (records == nullptr) return 0;
  const ssize_t seen =
      recv(fd, records, static_cast<size_t>(waiting_bytes), MSG_PEEK | MSG_DONTWAIT);
  uint32_t ended = 0;
  for (size_t i = 0; seen > 0 && (i + 1) * kRecordBytes <= static_cast<size_t>(seen); ++i) {
    if (HasEnded(table, records[i])) ++ended;
  }
  free(records);
  return ended;
}

EventTable::Found Find(EventTable& table, bool of_completions, const uroce_event_record& record,
                       void** object) {
  EventKind kind;
  *object = nullptr;
  const bool is_of_port = !KindOfEvent(record.event_type, &kind);
  const bool is_completion = !is_of_port && kind == EventKind::kCompletion;
  if (is_completion != of_completions) return EventTable::Found::kUnknown;
  return is_of_port ? EventTable::Found::kFound : table.Take(record.element, kind, object);
}

}  // namespace

bool KindOfEvent(uint32_t event_type, EventKind* kind) {
  switch (event_type) {
    case UROCE_EVENT_COMPLETION:
      *kind = EventKind::kCompletion;
      return true;
    case IBV_EVENT_CQ_ERR:
      *kind = EventKind::kCq;
      return true;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      *kind = EventKind::kQueuePair;
      return true;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      *kind = EventKind::kSharedReceiveQueue;
      return true;
    default:
      return false;
  }
}

EventStream::Result EventStream::Next(DaemonConnection& connection, int fd, bool of_completions,
                                      uroce_event_record& record, void** object) {
  for (;;) {
    // In a forked child these would be the parent's events.
    if (connection.state() == ConnectionState::kForked) {
      errno = EIO;
      return Result::kError;
    }
    uroce_event_record last;
    const ssize_t received = read(fd, &last, kRecordBytes);
    if (received < 0) return Result::kError;
    if (received != static_cast<ssize_t>(kRecordBytes)) return Result::kEnd;
    switch (TakeFirst(connection.events(), fd, last, of_completions, record, object)) {
      case EventTable::Found::kFound:
        return Result::kEvent;
      case EventTable::Found::kEnded:
        continue;
      case EventTable::Found::kUnknown:
        errno = EIO;
        return Result::kError;
    }
  }
}

EventTable::Found EventStream::TakeFirst(EventTable& table, int fd, const uroce_event_record& last,
                                         bool of_completions, uroce_event_record& record,
                                         void** object) {
  const CancelOff cancel_off;
  const MutexLock lock(mutex_);
  record = last;
  if (count_ == 0) return Find(table, of_completions, record, object);
  ahead_[count_++] = last;  // TakeAhead left room for it.
  EventTable::Found found = EventTable::Found::kEnded;
  while (found == EventTable::Found::kEnded && count_ != 0) {
    record = ahead_[0];
    memmove(ahead_, ahead_ + 1, --count_ * kRecordBytes);
    found = Find(table, of_completions, record, object);
  }
  // Another thread may have dropped records while this one held a record of its own.
  DropEndedLocked(table, fd);
  return found;
}

void EventStream::DropEnded(EventTable& table, int fd) {
  const CancelOff cancel_off;
  const MutexLock lock(mutex_);
  DropEndedLocked(table, fd);
}

// Each record ahead stands for one that waits on the fd and whose object has ended.
void EventStream::DropEndedLocked(EventTable& table, int fd) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    if (!HasEnded(table, ahead_[i])) ahead_[kept++] = ahead_[i];
  }
  count_ = kept;
  const uint32_t ended = CountEnded(table, fd);
  for (uint32_t surplus = ended > count_ ? ended - count_ : 0; surplus != 0; --surplus) {
    if (!TakeAhead(table, fd)) return;
  }
}

bool EventStream::TakeAhead(EventTable& table, int fd) {
  if (count_ + 1 >= capacity_) {
    const uint32_t capacity = capacity_ == 0 ? 16 : 2 * capacity_;
    void* memory = realloc(ahead_, capacity * kRecordBytes);
    if (memory == nullptr) return false;
    ahead_ = static_cast<uroce_event_record*>(memory);
    capacity_ = capacity;
  }
  uroce_event_record record;
  if (recv(fd, &record, kRecordBytes, MSG_DONTWAIT) != static_cast<ssize_t>(kRecordBytes)) {
    return false;
  }
  if (!HasEnded(table, record)) ahead_[count_++] = record;
  return true;
}

void EventStream::Free() { free(ahead_); }

}  // namespace uroce::shim
