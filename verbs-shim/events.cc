// SPDX-License-Identifier: Apache-2.0
// Completion and asynchronous events: ibv_get_*_event and ibv_ack_*_events.
#include <errno.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
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
      if (record.event_type > IBV_EVENT_WQ_FATAL) {  // The type is none.
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

/// The context of the event's object; null for events of a port or a device, which nobody waits
/// for.
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
