// SPDX-License-Identifier: Apache-2.0
// The verbs objects of this library: each starts with the public structure that programs see.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/cqe_rings.h"
#include "pipeline/shm/rings/work_queue.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/event_stream.h"
#include "verbs-shim/event_table.h"
#include "verbs-shim/spin_lock.h"

namespace uroce::shim {

/// One NIC of the daemon. Never freed or moved: programs and librdmacm compare the pointers of two
/// lists.
struct Device {
  ibv_device verbs;
  uroce_device_info info;
  uint32_t index;  ///< In the daemon's list.
  bool is_used;
};

extern constinit Device g_devices[UROCE_MAX_DEVICES];

/// The device at this place of the daemon's last list, or null.
Device* FindDevice(uint32_t index);

/// The greatest device memory that one ibv_alloc_dm makes.
inline constexpr uint64_t kMaxDeviceMemoryBytes = 256 << 10;

/// An opened device.
struct Context {
  DaemonConnection* connection;
  Device* device;
  uint32_t handle;
  uint32_t fatal_reported;  ///< The one DEVICE_FATAL after the daemon's end was delivered.
  EventStream events;       ///< Asynchronous ones.
  verbs_context verbs;      ///< Last: programs hold &verbs.context and look in front of it.
};

/// A protection domain, or a parent domain, which stands for one.
struct ProtectionDomain {
  ibv_pd verbs;
  uint32_t parents;                     ///< Parent domains of it. Under the context's mutex.
  ProtectionDomain* protection_domain;  ///< Of a parent domain; else null.
  ibv_td* td;                           ///< Of a parent domain, or null.
};

struct AddressHandle {
  ibv_ah verbs;
};

/// A domain of extended connections.
struct XrcDomain {
  ibv_xrcd verbs;
  uint32_t handle;
};

struct Channel {
  ibv_comp_channel verbs;
  uint32_t handle;
  EventStream events;
};

struct QueuePair;

struct alignas(UROCE_LINE) CompletionQueue {
  /// Also an ibv_cq: both start alike.
  ibv_cq_ex verbs;
  DaemonConnection* connection;
  EventSource events;
  uroce_cq_page* page;
  rings::WorkerCqeRing* ring_memory;  ///< What `rings` lives in: one for each worker.

  /// Guards all below, and each queue pair's `retired`.
  SpinLock lock;
  uint32_t empty_polls;
  rings::CqeRings rings;
  QueuePair* last_queue_pair;  ///< Of the last CQE: the next one is mostly of the same.
  uroce_cqe current;           ///< Between start_poll and end_poll.
};

/// Send or receive queue of a queue pair.
struct alignas(UROCE_LINE) WorkQueue {
  SpinLock lock;  ///< Guards `ring`.
  uint32_t max_requests;
  uint32_t max_sge;
  uint32_t retired;  ///< Index behind the newest request known to be complete. Written by pollers.
  rings::WorkQueueProducer ring;

  uint32_t waiting() const { return ring.index() - rings::LoadAcquire(retired); }
};

struct alignas(UROCE_LINE) SharedReceiveQueue {
  ibv_srq verbs;
  DaemonConnection* connection;
  EventSource events;
  CompletionQueue* cq;  ///< Of XRC: where it completes; else null.
  uint32_t number;      ///< Of XRC: by which requests name it.
  uroce_srq_page* page;
  SpinLock lock;  ///< Guards `ring`, and where it is.
  uint32_t max_requests;
  uint32_t max_sge;
  rings::WorkQueueProducer ring;
};

/// A list that ibv_wr_* calls build, from wr_start to wr_complete.
struct Build {
  uint32_t first;  ///< Index of its first request.
  int error;       ///< The first one.
  bool is_open;    ///< `request` is described, but not in the ring yet.
  ibv_send_wr request;
  ibv_sge sges[UROCE_MAX_SGE];
};

/// An XRC target has no queues, no page and no place in the connection's table.
struct alignas(UROCE_LINE) QueuePair {
  ibv_qp_ex verbs;  ///< Starts with the ibv_qp.
  DaemonConnection* connection;
  uroce_qp_page* page;
  uroce_doorbells* doorbells;
  uint32_t doorbell_slot;
  int wake_fd;
  uint32_t max_inline_bytes;
  bool signal_all;
  bool has_extended;  ///< ibv_qp_ex was asked for.
  ibv_qp_cap cap;
  WorkQueue send;
  WorkQueue receive;
  QueuePair* next;  ///< In the connection's table.
  EventSource events;

  Build build;  ///< Under send.lock.
};

// ---- from the public structure to ours, and whether it is ours ----

inline bool IsOurs(const ibv_device* device) {
  const auto address = reinterpret_cast<uintptr_t>(device);
  return address >= reinterpret_cast<uintptr_t>(&g_devices[0]) &&
         address < reinterpret_cast<uintptr_t>(&g_devices[UROCE_MAX_DEVICES]);
}
inline bool IsOurs(const ibv_context* context) { return IsOurs(context->device); }

inline Device* Ours(ibv_device* device) { return reinterpret_cast<Device*>(device); }
inline Context* Ours(ibv_context* context) {
  constexpr size_t kOffset = offsetof(Context, verbs) + offsetof(verbs_context, context);
  return reinterpret_cast<Context*>(reinterpret_cast<uint8_t*>(context) - kOffset);
}
inline ProtectionDomain* Ours(ibv_pd* pd) { return reinterpret_cast<ProtectionDomain*>(pd); }
inline XrcDomain* Ours(ibv_xrcd* xrcd) { return reinterpret_cast<XrcDomain*>(xrcd); }
inline Channel* Ours(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
inline CompletionQueue* Ours(ibv_cq* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
inline CompletionQueue* Ours(ibv_cq_ex* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
inline SharedReceiveQueue* Ours(ibv_srq* srq) { return reinterpret_cast<SharedReceiveQueue*>(srq); }
inline QueuePair* Ours(ibv_qp* qp) { return reinterpret_cast<QueuePair*>(qp); }
inline QueuePair* Ours(ibv_qp_ex* qp) { return reinterpret_cast<QueuePair*>(qp); }

/// Whether an object of `context` may be named to the daemon of `connection`: 0, or an errno.
/// EINVAL: it is another library's. EIO: its own daemon has gone. The next daemon may have the
/// object's handle for another object, and another number of workers.
inline int CheckNamed(const DaemonConnection& connection, ibv_context* context) {
  if (!IsOurs(context)) return EINVAL;
  return Ours(context)->connection == &connection ? 0 : EIO;
}

inline ibv_qp* VerbsOf(QueuePair* queue_pair) { return &queue_pair->verbs.qp_base; }
inline ibv_cq* VerbsOf(CompletionQueue* cq) { return reinterpret_cast<ibv_cq*>(&cq->verbs); }

}  // namespace uroce::shim
