// SPDX-License-Identifier: Apache-2.0
// Completion and asynchronous events: records read from real, pollable pipes.
#include <unistd.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_get_cq_event, "IBVERBS_1.1");
UROCE_REAL(ibv_ack_cq_events, "IBVERBS_1.1");
UROCE_REAL(ibv_get_async_event, "IBVERBS_1.1");
UROCE_REAL(ibv_ack_async_event, "IBVERBS_1.1");

enum class ReadResult { kRecord, kError, kEnd };

/// Reads one record. kError: errno says why, also EAGAIN and EINTR, which are the program's own
/// doing. kEnd: the daemon has closed its end.
ReadResult ReadRecord(int fd, void* record, size_t size_bytes) {
  const ssize_t received = read(fd, record, size_bytes);
  if (received == static_cast<ssize_t>(size_bytes)) return ReadResult::kRecord;
  return received < 0 ? ReadResult::kError : ReadResult::kEnd;
}

/// Reads records of one kind until one is of an object that the program still has: those that were
/// under way when theirs ended are passed over. kError with EIO: one that nobody is meant by.
template <typename Record, typename NumberOf>
ReadResult ReadFor(Session& session, int fd, Record& record, NumberOf&& number_of, void** object) {
  for (;;) {
    // A child's would be its parent's events.
    if (session.state() == SessionState::kForked) {
      errno = EIO;
      return ReadResult::kError;
    }
    const ReadResult result = ReadRecord(fd, &record, sizeof(record));
    if (result != ReadResult::kRecord) return result;
    uint64_t number;
    EventKind kind;
    if (!number_of(record, &number, &kind)) return result;
    switch (session.events().Take(number, kind, object)) {
      case EventTable::Found::kFound:
        return result;
      case EventTable::Found::kEnded:
        continue;
      case EventTable::Found::kUnknown:
        errno = EIO;
        return ReadResult::kError;
    }
  }
}

int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  Session& session = *Ours(channel->context)->session;
  uint64_t record;
  void* object;
  const auto number_of = [](uint64_t value, uint64_t* number, EventKind* kind) {
    *number = value;
    *kind = EventKind::kCompletion;
    return true;
  };
  switch (ReadFor(session, channel->fd, record, number_of, &object)) {
    case ReadResult::kRecord:
      *cq = VerbsOf(static_cast<CompletionQueue*>(object));
      *cq_context = (*cq)->cq_context;
      return 0;
    case ReadResult::kEnd:
      (void)session.CheckAlive();
      errno = EIO;
      return -1;
    case ReadResult::kError:
      return -1;
  }
  return -1;
}

/// What an asynchronous event of this type is of. False: of a port or a device.
bool KindOf(uint32_t event_type, EventKind* kind) {
  switch (event_type) {
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

/// `object` is what the event is of, where it is not of a port.
void Describe(const uroce_async_record& record, void* object, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(record.event_type);
  EventKind kind;
  if (!KindOf(record.event_type, &kind)) {
    event.element.port_num = static_cast<int>(record.element);
  } else if (kind == EventKind::kCq) {
    event.element.cq = VerbsOf(static_cast<CompletionQueue*>(object));
  } else if (kind == EventKind::kQueuePair) {
    event.element.qp = VerbsOf(static_cast<QueuePair*>(object));
  } else {
    event.element.srq = &static_cast<SharedReceiveQueue*>(object)->verbs;
  }
}

/// The daemon's end is the device's: one DEVICE_FATAL, after that EIO, as the kernel does when a
/// device was removed.
int ReportFatal(Context& context, ibv_async_event* event) {
  (void)context.session->CheckAlive();
  if (__atomic_exchange_n(&context.fatal_reported, 1, __ATOMIC_RELAXED) != 0) {
    errno = EIO;
    return -1;
  }
  event->event_type = IBV_EVENT_DEVICE_FATAL;
  event->element.port_num = 0;
  return 0;
}

int GetAsyncEvent(Context& context, ibv_async_event* event) {
  uroce_async_record record;
  void* object = nullptr;
  const auto number_of = [](const uroce_async_record& value, uint64_t* number, EventKind* kind) {
    *number = value.element;
    return KindOf(value.event_type, kind);
  };
  switch (ReadFor(*context.session, context.verbs.context.async_fd, record, number_of, &object)) {
    case ReadResult::kRecord:
      if (record.event_type > IBV_EVENT_WQ_FATAL) {  // No event.
        errno = EIO;
        return -1;
      }
      Describe(record, object, *event);
      return 0;
    case ReadResult::kEnd:
      return ReportFatal(context, event);
    case ReadResult::kError:
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

/// Whose event it is; null for events of a port or a device, which nobody waits for.
ibv_context* ContextOf(const ibv_async_event& event) {
  EventKind kind;
  if (!KindOf(event.event_type, &kind)) return nullptr;
  if (kind == EventKind::kCq) return event.element.cq->context;
  return kind == EventKind::kQueuePair ? event.element.qp->context : event.element.srq->context;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return IsOurs(channel->context) ? GetCqEvent(channel, cq, cq_context)
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
