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

int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  uint64_t user_handle;
  switch (ReadRecord(channel->fd, &user_handle, sizeof(user_handle))) {
    case ReadResult::kRecord:
      *cq = reinterpret_cast<ibv_cq*>(user_handle);
      *cq_context = (*cq)->cq_context;
      return 0;
    case ReadResult::kEnd:
      (void)Ours(channel->context)->session->CheckAlive();
      errno = EIO;
      return -1;
    case ReadResult::kError:
      return -1;
  }
  return -1;
}

void Describe(const uroce_async_record& record, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(record.event_type);
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      event.element.cq = reinterpret_cast<ibv_cq*>(record.element);
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      event.element.qp = reinterpret_cast<ibv_qp*>(record.element);
      return;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      event.element.srq = reinterpret_cast<ibv_srq*>(record.element);
      return;
    default:
      event.element.port_num = static_cast<int>(record.element);
      return;
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
  switch (ReadRecord(context.verbs.context.async_fd, &record, sizeof(record))) {
    case ReadResult::kRecord:
      Describe(record, *event);
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
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->context;
    default:
      return nullptr;
  }
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
