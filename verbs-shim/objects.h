// SPDX-License-Identifier: Apache-2.0
// The verbs objects of this library: each starts with the public structure that programs see.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/completion_queue.h"
#include "pipeline/shm/rings/work_queue.h"
#include "verbs-shim/connection_tables.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/events.h"
#include "verbs-shim/send_copies.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

/// One NIC of the daemon. Never freed or moved: programs and librdmacm compare the pointers of two
/// lists. A NIC that was removed and added again by its name is the same device: `info` is that of
/// the last list in which it was.
struct Device {
  ibv_device verbs;
  uroce_device_info info;
  bool is_used;
};

extern constinit Device g_devices[UROCE_MAX_DEVICES];

/// The device that had this index in the last list with its name, or null.
Device* FindDevice(uint32_t index);
/// Asks the daemon for its devices, over a new connection if the last one has ended. Whether
/// `device` is among them.
bool ListAgain(const Device& device);

/// The most bytes of device memory that one ibv_alloc_dm may allocate.
inline constexpr uint64_t kMaxDeviceMemoryBytes = 256 << 10;

/// An opened device.
struct Context {
  DaemonConnection* connection;
  Device* device;
  uint32_t handle;
  uint32_t fatal_reported;  ///< DEVICE_FATAL was delivered; it comes once, when the daemon is gone.
  EventStream events;       ///< Asynchronous events.
  verbs_context verbs;      ///< Last: programs hold &verbs.context and look in front of it.
};

/// A protection domain; or a parent domain, which stands for a protection domain.
struct ProtectionDomain {
  ibv_pd verbs;
  uint32_t parents;                     ///< Parent domains of it. Under the context's mutex.
  ProtectionDomain* protection_domain;  ///< Of a parent domain; otherwise null.
  ibv_td* td;                           ///< Of a parent domain, or null.
};

struct AddressHandle {
  ibv_ah verbs;
};

/// An XRC domain.
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
  /// Also an ibv_cq: both structures start alike.
  ibv_cq_ex verbs;
  DaemonConnection* connection;
  EventSource events;
  uroce_cq_page* page;
  rings::WorkerCqeRing* ring_memory;  ///< The memory of `rings`: one ring for each worker.

  /// Guards all members below, and `retired` of each queue pair.
  SpinLock lock;
  uint32_t empty_polls;
  rings::CqeRings rings;
  QueuePair* last_queue_pair;  ///< Of the last CQE: the next CQE is mostly of the same one.
  uroce_cqe current;           ///< Valid between start_poll and end_poll.
};

/// The send or receive queue of a queue pair.
struct alignas(UROCE_LINE) WorkQueue {
  SpinLock lock;  ///< Guards `ring`.
  uint32_t max_requests;
  uint32_t max_sge;
  uint32_t retired;  ///< Index after the newest request known to be complete. Written by pollers.
  rings::WorkQueueProducer ring;

  uint32_t waiting() const { return ring.index() - rings::LoadAcquire(retired); }
};

struct alignas(UROCE_LINE) SharedReceiveQueue {
  ibv_srq verbs;
  DaemonConnection* connection;
  EventSource events;
  CompletionQueue* cq;  ///< Of an XRC SRQ: its completion queue; otherwise null.
  uint32_t number;      ///< Of an XRC SRQ: the number by which requests name it.
  uroce_srq_page* page;
  SpinLock lock;  ///< Guards `ring`, and the place of its memory.
  uint32_t max_requests;
  uint32_t max_sge;
  rings::WorkQueueProducer ring;
};

/// A list of requests that ibv_wr_* calls build, from wr_start to wr_complete.
struct Build {
  uint32_t first;  ///< Index of the first request of the list.
  int error;       ///< The first error.
  bool is_open;    ///< Whether `request` is begun, but not in the ring yet.
  ibv_send_wr request;
  ibv_sge sges[UROCE_MAX_SGE];
};

/// A queue pair. An XRC target has no queues, no page and no place in the connection's table.
struct alignas(UROCE_LINE) QueuePair {
  ibv_qp_ex verbs;  ///< Starts with the ibv_qp.
  DaemonConnection* connection;
  uroce_qp_page* page;
  uint32_t doorbell_slot;
  uint32_t max_inline_bytes;
  bool signal_all;
  bool has_extended;  ///< Whether the program asked for an ibv_qp_ex.
  ibv_qp_cap cap;
  WorkQueue send;
  SendCopies copies;  ///< Guarded by send.lock.
  WorkQueue receive;
  QueuePair* next;  ///< In the list of the connection's table.
  EventSource events;

  Build build;  ///< Guarded by send.lock.
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

/// Whether the daemon of `connection` knows an object of `context`: 0, or an errno. EINVAL: the
/// object is another library's. EIO: the object's own daemon has gone. The next daemon may have
/// given the object's handle to another object, and may have another number of workers.
inline int CheckNamed(const DaemonConnection& connection, ibv_context* context) {
  if (!IsOurs(context)) return EINVAL;
  return Ours(context)->connection == &connection ? 0 : EIO;
}

inline ibv_qp* VerbsOf(QueuePair* queue_pair) { return &queue_pair->verbs.qp_base; }
inline ibv_cq* VerbsOf(CompletionQueue* cq) { return reinterpret_cast<ibv_cq*>(&cq->verbs); }

}  // namespace uroce::shim
