// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/events.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/support.h"
#include "verbs-shim/verbs_ops.h"

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
  // Another thread may have dropped records while this one held its own record.
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

// ---- ibv_get_*_event and ibv_ack_*_events ----

namespace {

UROCE_REAL(ibv_get_cq_event, "IBVERBS_1.1");
UROCE_REAL(ibv_ack_cq_events, "IBVERBS_1.1");
UROCE_REAL(ibv_get_async_event, "IBVERBS_1.1");
UROCE_REAL(ibv_ack_async_event, "IBVERBS_1.1");

int GetCqEvent(Channel& channel, ibv_cq** cq, void** cq_context) {
  DaemonConnection& connection = *Ours(channel.verbs.context)->connection;
  uroce_event_record record;
  void* object;
  switch (
      channel.events.Next(connection, channel.verbs.fd, /*of_completions=*/true, record, &object)) {
    case EventStream::Result::kEvent:
      *cq = VerbsOf(static_cast<CompletionQueue*>(object));
      *cq_context = (*cq)->cq_context;
      return 0;
    case EventStream::Result::kEnd:
      (void)connection.CheckAlive();
      errno = EIO;
      return -1;
    case EventStream::Result::kError:
      return -1;
  }
  return -1;
}

/// Fills `event`. `object` is the event's object, unless the event is of a port.
void Describe(const uroce_event_record& record, void* object, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(record.event_type);
  EventKind kind;
  if (!KindOfEvent(record.event_type, &kind)) {
    event.element.port_num = static_cast<int>(record.element);
  } else if (kind == EventKind::kCq) {
    event.element.cq = VerbsOf(static_cast<CompletionQueue*>(object));
  } else if (kind == EventKind::kQueuePair) {
    event.element.qp = VerbsOf(static_cast<QueuePair*>(object));
  } else {
    event.element.srq = &static_cast<SharedReceiveQueue*>(object)->verbs;
  }
}

/// When the daemon has ended, so has the device: one DEVICE_FATAL, and then EIO, as the kernel does
/// after a device was removed.
int ReportFatal(Context& context, ibv_async_event* event) {
  (void)context.connection->CheckAlive();
  if (__atomic_exchange_n(&context.fatal_reported, 1, __ATOMIC_RELAXED) != 0) {
    errno = EIO;
    return -1;
  }
  event->event_type = IBV_EVENT_DEVICE_FATAL;
  event->element.port_num = 0;
  return 0;
}

int GetAsyncEvent(Context& context, ibv_async_event* event) {
  uroce_event_record record;
  void* object;
  const int fd = context.verbs.context.async_fd;
  switch (context.events.Next(*context.connection, fd, /*of_completions=*/false, record, &object)) {
    case EventStream::Result::kEvent:
      if (record.event_type > UROCE_EVENT_DEVICE_SPEED_CHANGE) {  // The type is none.
        errno = EIO;
        return -1;
      }
      Describe(record, object, *event);
      return 0;
    case EventStream::Result::kEnd:
      return ReportFatal(context, event);
    case EventStream::Result::kError:
      return -1;
  }
  return -1;
}

void Acknowledge(pthread_mutex_t& mutex, pthread_cond_t& condition, uint32_t& completed,
                 uint32_t count) {
  const MutexLock lock(mutex);
  completed += count;
  pthread_cond_broadcast(&condition);
}

/// The context of the event's object; null for events of a port or a device: no thread waits for
/// their acknowledgement.
ibv_context* ContextOf(const ibv_async_event& event) {
  EventKind kind;
  if (!KindOfEvent(event.event_type, &kind)) return nullptr;
  if (kind == EventKind::kCq) return event.element.cq->context;
  return kind == EventKind::kQueuePair ? event.element.qp->context : event.element.srq->context;
}

}  // namespace

void DropUnread(Context& context, const EventSource& ended, uint32_t sent) {
  if (sent == ended.async_events) return;
  context.events.DropEnded(context.connection->events(), context.verbs.context.async_fd);
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return IsOurs(channel->context) ? GetCqEvent(*Ours(channel), cq, cq_context)
                                  : real_ibv_get_cq_event.CallOr(-1, channel, cq, cq_context);
}

UROCE_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  if (!IsOurs(cq->context)) return real_ibv_ack_cq_events.Call(cq, count);
  if (count != 0) Acknowledge(cq->mutex, cq->cond, cq->comp_events_completed, count);
}

UROCE_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return IsOurs(context) ? GetAsyncEvent(*Ours(context), event)
                         : real_ibv_get_async_event.CallOr(-1, context, event);
}

UROCE_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  const ibv_context* context = ContextOf(*event);
  if (context == nullptr || !IsOurs(context)) return real_ibv_ack_async_event.Call(event);
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    ibv_cq* cq = event->element.cq;
    return Acknowledge(cq->mutex, cq->cond, cq->async_events_completed, 1);
  }
  const bool of_srq =
      event->event_type == IBV_EVENT_SRQ_ERR || event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
  if (of_srq) {
    ibv_srq* srq = event->element.srq;
    return Acknowledge(srq->mutex, srq->cond, srq->events_completed, 1);
  }
  ibv_qp* qp = event->element.qp;
  Acknowledge(qp->mutex, qp->cond, qp->events_completed, 1);
}

}  // extern "C"
