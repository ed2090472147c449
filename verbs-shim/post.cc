// SPDX-License-Identifier: Apache-2.0
// Posts work requests: each is checked and written into the ring; each list is published once. A
// system call is made only to wake a worker that sleeps.
// Which request is legal: docs/protocol/transport.md, sections 1 and 12;
// docs/protocol/verbs-semantics.md, section 6.
#include <string.h>
#include <unistd.h>

#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/work_queue.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

static_assert(sizeof(ibv_sge) == sizeof(uroce_sge));
static_assert(offsetof(ibv_sge, length) == offsetof(uroce_sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(uroce_sge, lkey));
static_assert(IBV_SEND_FENCE == UROCE_SEND_FENCE);
static_assert(IBV_SEND_SIGNALED == UROCE_SEND_SIGNALED);
static_assert(IBV_SEND_SOLICITED == UROCE_SEND_SOLICITED);
static_assert(IBV_SEND_INLINE == UROCE_SEND_INLINE);

constexpr uint32_t Bit(ibv_wr_opcode opcode) { return 1u << opcode; }

constexpr uint32_t kAtomics = Bit(IBV_WR_ATOMIC_CMP_AND_SWP) | Bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
constexpr uint32_t kWrites = Bit(IBV_WR_RDMA_WRITE) | Bit(IBV_WR_RDMA_WRITE_WITH_IMM);
/// Listed with kAtomics: the fields of a WRITE hold what it needs.
constexpr uint32_t kAtomicWrite = Bit(IBV_WR_ATOMIC_WRITE);
constexpr uint32_t kSends =
    Bit(IBV_WR_SEND) | Bit(IBV_WR_SEND_WITH_IMM) | Bit(IBV_WR_SEND_WITH_INV);
constexpr uint32_t kLocals = Bit(IBV_WR_LOCAL_INV) | Bit(IBV_WR_BIND_MW);
constexpr uint32_t kOfReliableConnection =
    kSends | kWrites | kAtomics | kAtomicWrite | Bit(IBV_WR_RDMA_READ) | kLocals;
constexpr uint32_t kOfUnreliableConnection =
    Bit(IBV_WR_SEND) | Bit(IBV_WR_SEND_WITH_IMM) | kWrites | kLocals;
constexpr uint32_t kOfDatagrams = Bit(IBV_WR_SEND) | Bit(IBV_WR_SEND_WITH_IMM);
constexpr uint32_t kMayBeInline = kSends | kWrites | kAtomicWrite;
constexpr unsigned kKnownFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
constexpr uint64_t kAtomicBytes = 8;

uint64_t TotalBytes(const ibv_send_wr& wr) {
  uint64_t total = 0;
  for (int i = 0; i < wr.num_sge; ++i) total += wr.sg_list[i].length;
  return total;
}

uint32_t LegalOpcodes(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return kOfDatagrams;
  if (type == IBV_QPT_XRC_RECV) return 0;
  return type == IBV_QPT_UC ? kOfUnreliableConnection : kOfReliableConnection;
}

// When the window's state, keys or rights do not allow the bind, the work fails. This function
// refuses only what a slot cannot even express.
int CheckBind(const QueuePair& queue_pair, const ibv_send_wr& wr) {
  const ibv_mw* mw = wr.bind_mw.mw;
  const ibv_mr* mr = wr.bind_mw.bind_info.mr;
  const ibv_context* context = queue_pair.verbs.qp_base.context;
  if (mw == nullptr || mw->context != context) return EINVAL;
  return mr != nullptr && mr->context != context ? EINVAL : 0;
}

int CheckSend(const QueuePair& queue_pair, const ibv_send_wr& wr) {
  if (static_cast<unsigned>(wr.opcode) > 31) return EINVAL;
  const uint32_t bit = Bit(wr.opcode);
  const ibv_qp_type type = queue_pair.verbs.qp_base.qp_type;
  if ((LegalOpcodes(type) & bit) == 0) return EINVAL;
  if (queue_pair.send.waiting() >= queue_pair.send.max_requests) return ENOMEM;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if ((kMayBeInline & bit) == 0 || wr.num_sge < 0) return EINVAL;
    if (TotalBytes(wr) > queue_pair.max_inline_bytes) return EINVAL;
    return bit == kAtomicWrite && TotalBytes(wr) != kAtomicBytes ? EINVAL : 0;
  }
  if ((kLocals & bit) != 0) return wr.opcode == IBV_WR_BIND_MW ? CheckBind(queue_pair, wr) : 0;
  if (static_cast<unsigned>(wr.num_sge) > queue_pair.send.max_sge) return EINVAL;
  // The responder judges whether the remote address is aligned, as with hardware.
  return ((kAtomics | kAtomicWrite) & bit) != 0 && TotalBytes(wr) < kAtomicBytes ? EINVAL : 0;
}

uroce_wqe_datagram AddressOf(const ibv_send_wr& wr) {
  const ibv_ah* ah = wr.wr.ud.ah;
  return {ah == nullptr ? UROCE_NONE : ah->handle, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey, 0};
}

void DescribeBind(const ibv_send_wr& wr, uroce_send_wqe& header) {
  const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  header.imm_or_rkey = wr.bind_mw.mw->rkey;
  header.remote_addr = info.addr;
  header.rkey = wr.bind_mw.rkey;
  header.bind = {info.length, info.mr == nullptr ? 0 : info.mr->lkey, info.mw_access_flags};
}

uroce_send_wqe HeaderOf(const ibv_send_wr& wr, ibv_qp_type type) {
  uroce_send_wqe header;
  header.wr_id = wr.wr_id;
  header.opcode = static_cast<uint8_t>(wr.opcode);
  header.flags = static_cast<uint8_t>(wr.send_flags & kKnownFlags);
  header.num_sge = static_cast<uint16_t>(wr.num_sge);
  header.imm_or_rkey = wr.imm_data;  // Or invalidate_rkey, which has the same bytes.
  header.xrc_srqn = type == IBV_QPT_XRC_SEND ? wr.qp_type.xrc.remote_srqn : 0;
  if (type == IBV_QPT_UD) {
    header.remote_addr = 0;
    header.rkey = 0;
    header.datagram = AddressOf(wr);
    return header;
  }
  if ((kLocals & Bit(wr.opcode)) != 0) {
    header.num_sge = 0;
    header.remote_addr = 0;
    header.rkey = 0;
    header.atomic = {0, 0};
    if (wr.opcode == IBV_WR_BIND_MW) DescribeBind(wr, header);
    return header;
  }
  // remote_addr is at the same offset in both structures.
  header.remote_addr = wr.wr.rdma.remote_addr;
  if ((kAtomics & Bit(wr.opcode)) != 0) {
    header.rkey = wr.wr.atomic.rkey;
    header.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
  } else {
    header.rkey = wr.wr.rdma.rkey;
    header.atomic = {0, 0};
  }
  return header;
}

/// Copies the payload bytes: the program may reuse their buffers when post returns.
void WriteInline(uint8_t* slot, uroce_send_wqe& header, const ibv_send_wr& wr) {
  uint8_t* place = slot + sizeof(header);
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    memcpy(place, reinterpret_cast<const void*>(sge.addr), sge.length);
    place += sge.length;
  }
  header.inline_length = static_cast<uint16_t>(place - slot - sizeof(header));
  rings::WriteSendHeader(slot, header);
}

/// Whether the program sends bytes of regions that the daemon does not map, perhaps by `wr`.
bool MayCopy(const QueuePair& queue_pair, const ibv_send_wr& wr) {
  if (queue_pair.connection->copied_regions().empty()) [[likely]]
    return false;
  return ((kSends | kWrites) & Bit(wr.opcode)) != 0 && (wr.send_flags & IBV_SEND_FENCE) == 0;
}

/// Rings when the queue pair is in error. A worker does not check receive queues by itself then, so
/// the doorbell makes it flush what is posted then, too.
void RingIfInError(const QueuePair& queue_pair) {
  // Pairs with the worker, which stores the state, fences and reads the index.
  rings::FullFence();
  if (rings::LoadRelaxed(queue_pair.page->state.value) == IBV_QPS_ERR) RingDoorbell(queue_pair);
}

}  // namespace

// One of the posters that find the worker asleep wakes it by a system call. The worker may take
// long to get a processor, and without this rule every post would make the system call until then.
//
// The queue pair may move to another worker at any time. That worker looks at the queues once when
// it has it, behind a full fence: it finds the request, or this thread finds its number.
void RingDoorbell(const QueuePair& queue_pair) {
  DaemonConnection& connection = *queue_pair.connection;
  uint32_t rung = UINT32_MAX;
  for (;;) {
    const uint32_t worker = rings::LoadRelaxed(queue_pair.page->worker.value);
    if (worker == rung || worker >= connection.worker_count()) return;
    rung = worker;
    uroce_doorbells& doorbells = *connection.doorbells(worker);
    const bool sleeps = rings::Ring(doorbells, queue_pair.doorbell_slot);
    if (sleeps && __atomic_exchange_n(&doorbells.sleeping.value, 0, __ATOMIC_SEQ_CST) != 0) {
      connection.Wake(connection.wake_fd(worker));
    }
    rings::FullFenceAfterAtomic();
  }
}

int WriteReceive(rings::WorkQueueProducer& ring, uint32_t max_sge, const ibv_recv_wr& wr) {
  if (static_cast<unsigned>(wr.num_sge) > max_sge) return EINVAL;
  const auto num_sge = static_cast<uint32_t>(wr.num_sge);
  uint8_t* place = rings::WriteReceiveHeader(ring.Slot(ring.index()), wr.wr_id, num_sge);
  memcpy(place, wr.sg_list, num_sge * sizeof(ibv_sge));
  ring.Advance();
  return 0;
}

int CheckSendable(const QueuePair& queue_pair) {
  if (queue_pair.connection->state() == ConnectionState::kForked) return EIO;
  // RESET, INIT and RTR send nothing.
  return queue_pair.verbs.qp_base.state < IBV_QPS_RTS ? EINVAL : 0;
}

int WriteSend(QueuePair& queue_pair, const ibv_send_wr& wr) {
  const int error = CheckSend(queue_pair, wr);
  if (error != 0) return error;
  rings::WorkQueueProducer& ring = queue_pair.send.ring;
  uint8_t* slot = ring.Slot(ring.index());
  uroce_send_wqe header = HeaderOf(wr, queue_pair.verbs.qp_base.qp_type);
  if ((header.flags & UROCE_SEND_INLINE) != 0) {
    WriteInline(slot, header, wr);
  } else if (ibv_sge copy; MayCopy(queue_pair, wr) && CopyPayload(queue_pair, wr, &copy)) {
    header.num_sge = 1;
    memcpy(rings::WriteSendHeader(slot, header), &copy, sizeof(copy));
  } else {
    uint8_t* place = rings::WriteSendHeader(slot, header);
    memcpy(place, wr.sg_list, header.num_sge * sizeof(ibv_sge));
  }
  ring.Advance();
  return 0;
}

void SetAddress(QueuePair& queue_pair, const ibv_send_wr& wr) {
  rings::WorkQueueProducer& ring = queue_pair.send.ring;
  const uroce_wqe_datagram address = AddressOf(wr);
  memcpy(ring.Slot(ring.index() - 1) + offsetof(uroce_send_wqe, datagram), &address,
         sizeof(address));
}

void SetRemoteSrq(QueuePair& queue_pair, uint32_t srqn) {
  rings::WorkQueueProducer& ring = queue_pair.send.ring;
  memcpy(ring.Slot(ring.index() - 1) + offsetof(uroce_send_wqe, xrc_srqn), &srqn, sizeof(srqn));
}

void PublishSends(QueuePair& queue_pair, uint32_t first) {
  if (queue_pair.send.ring.index() == first) return;
  queue_pair.send.ring.Publish();
  RingDoorbell(queue_pair);
}

int PostSend(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  QueuePair& queue_pair = *Ours(base);
  int error = CheckSendable(queue_pair);
  if (error != 0) {
    *bad_wr = wr;
    return error;
  }
  bool wants_ring;
  {
    const SpinGuard guard(queue_pair.send.lock);
    const uint32_t first = queue_pair.send.ring.index();
    for (; wr != nullptr; wr = wr->next) {
      error = WriteSend(queue_pair, *wr);
      if (error == 0) continue;
      *bad_wr = wr;
      break;
    }
    PublishSends(queue_pair, first);
    wants_ring = queue_pair.copies.state == SendCopies::State::kWanted;
  }
  if (wants_ring) [[unlikely]]
    MakeWantedRing(queue_pair);
  return error;
}

int PostReceive(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  QueuePair& queue_pair = *Ours(base);
  const bool is_forked = queue_pair.connection->state() == ConnectionState::kForked;
  int error = is_forked ? EIO : base->state == IBV_QPS_RESET ? EINVAL : 0;
  if (error != 0) {
    *bad_wr = wr;
    return error;
  }
  WorkQueue& queue = queue_pair.receive;
  const SpinGuard guard(queue.lock);
  const uint32_t first = queue.ring.index();
  for (; wr != nullptr; wr = wr->next) {
    error = queue.waiting() >= queue.max_requests ? ENOMEM
                                                  : WriteReceive(queue.ring, queue.max_sge, *wr);
    if (error == 0) continue;
    *bad_wr = wr;
    break;
  }
  if (queue.ring.index() == first) return error;
  queue.ring.Publish();
  RingIfInError(queue_pair);
  return error;
}

}  // namespace uroce::shim
