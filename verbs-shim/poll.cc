// SPDX-License-Identifier: Apache-2.0
// Polls completion queues: without a system call while completions come. A poll that stays empty
// yields the core or, where others want it, sleeps until a completion comes (poller.h). The poll
// looks again after that, so a program that then reads of a disconnection has had all earlier
// completions.
#include <stdlib.h>
#include <string.h>

#include "pipeline/shm/rings/completion_queue.h"
#include "verbs-shim/completion_queue.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/poller.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

/// After how many empty polls with a yield the shim checks whether the daemon lives.
constexpr uint32_t kYieldsPerCheck = 64;
constexpr uint32_t kPollsPerCheckWithoutYield = 4096;

bool YieldIsWanted() {
  static int wanted = -1;  // Read once; two racing threads read the same value.
  int value = __atomic_load_n(&wanted, __ATOMIC_RELAXED);
  if (value < 0) {
    const char* text = secure_getenv("UROCE_YIELD");
    value = text != nullptr && strcmp(text, "0") == 0 ? 0 : 1;
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
  }
  return value != 0;
}

QueuePair* FindQueuePair(CompletionQueue& cq, uint32_t handle) {
  QueuePair* last = cq.last_queue_pair;
  if (last != nullptr && last->verbs.qp_base.handle == handle) return last;
  QueuePair* found = cq.connection->queue_pairs().Find(handle);
  // When a queue pair that completes elsewhere ends, its completions stay in this CQ.
  if (found != nullptr && found->verbs.qp_base.send_cq != VerbsOf(&cq) &&
      found->verbs.qp_base.recv_cq != VerbsOf(&cq)) {
    return nullptr;
  }
  cq.last_queue_pair = found;
  return found;
}

/// Frees the slots up to `index`: a completion also retires the unsignaled requests before its own.
void Retire(WorkQueue& queue, uint32_t index) {
  const uint32_t retired = rings::LoadRelaxed(queue.retired);
  const uint32_t advance = index + 1 - retired;
  if (advance <= queue.ring.index() - retired) rings::StoreRelease(queue.retired, index + 1);
}

/// Copies the entry and accounts for it. False: its queue pair is gone.
bool Account(CompletionQueue& cq, const uroce_cqe& entry) {
  rings::CopyOnce(&cq.current, &entry, sizeof(entry));
  if (cq.current.qp_handle == UROCE_NONE) return false;
  if ((cq.current.flags & UROCE_CQE_XRC) != 0) return true;  // The target may be another program's.
  QueuePair* queue_pair = FindQueuePair(cq, cq.current.qp_handle);
  if (queue_pair == nullptr) return false;
  // Entries of a shared queue complete in any order: the daemon says which of its slots are free.
  if ((cq.current.flags & UROCE_CQE_SHARED) != 0) return true;
  const bool is_receive = (cq.current.flags & UROCE_CQE_RECEIVE) != 0;
  Retire(is_receive ? queue_pair->receive : queue_pair->send, cq.current.wqe_index);
  return true;
}

/// Makes a flush completion of the next request of `queue`, which will never be done.
bool FlushOne(CompletionQueue& cq, QueuePair& queue_pair, WorkQueue& queue, bool is_receive) {
  if (queue.waiting() == 0) return false;
  const uint32_t index = rings::LoadRelaxed(queue.retired);
  cq.current = {};
  memcpy(&cq.current.wr_id, queue.ring.Slot(index), sizeof(cq.current.wr_id));
  cq.current.status = IBV_WC_WR_FLUSH_ERR;
  cq.current.opcode = is_receive ? IBV_WC_RECV : IBV_WC_SEND;
  cq.current.qp_num = queue_pair.verbs.qp_base.qp_num;
  rings::StoreRelease(queue.retired, index + 1);
  return true;
}

/// Acts for a daemon that is gone: posted requests complete as flushed, in order per queue.
bool FlushNext(CompletionQueue& cq) {
  bool found = false;
  cq.connection->queue_pairs().ForEach([&](QueuePair* queue_pair) {
    const ibv_qp& verbs = queue_pair->verbs.qp_base;
    if (!found && verbs.send_cq == VerbsOf(&cq)) {
      found = FlushOne(cq, *queue_pair, queue_pair->send, false);
    }
    if (!found && verbs.recv_cq == VerbsOf(&cq)) {
      found = FlushOne(cq, *queue_pair, queue_pair->receive, true);
    }
  });
  return found;
}

void Describe(const uroce_cqe& cqe, ibv_wc& wc) {
  wc.wr_id = cqe.wr_id;
  wc.status = static_cast<ibv_wc_status>(cqe.status);
  wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
  wc.vendor_err = cqe.vendor_err;
  wc.byte_len = cqe.byte_len;
  wc.imm_data = cqe.imm_or_rkey;  // Or invalidated_rkey, the same bytes.
  wc.qp_num = cqe.qp_num;
  wc.src_qp = cqe.src_qp;
  wc.wc_flags = cqe.wc_flags;
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = cqe.sl;
  wc.dlid_path_bits = 0;
}

/// Makes pollers skip the waiting completions of `handle`: a queue pair's handle or, with
/// UROCE_CQE_XRC, a shared receive queue's. The caller holds cq.lock.
void MarkForgotten(CompletionQueue& cq, uint32_t handle, uint8_t kind) {
  if (HasNewRings(cq)) TakeNewRings(cq);
  cq.rings.ForEachWaiting([handle, kind](uroce_cqe& cqe) {
    const bool is_of_kind = (cqe.flags & UROCE_CQE_XRC) == kind;
    if (is_of_kind && cqe.qp_handle == handle) cqe.qp_handle = UROCE_NONE;
  });
}

/// Waits after `empty_polls` that found nothing, and regularly checks whether the daemon lives.
/// True: other threads ran, and completions may have come.
bool WaitForTurn(DaemonConnection& connection, uint32_t empty_polls) {
  const ErrnoKeeper keeper;
  const bool waits = YieldIsWanted();
  const bool has_waited = waits && t_poller.Wait();
  const uint32_t period = waits ? kYieldsPerCheck : kPollsPerCheckWithoutYield;
  if (empty_polls % period == 0) (void)connection.CheckAlive();
  return has_waited;
}

}  // namespace

bool TakeCompletion(CompletionQueue& cq) {
  while (const uroce_cqe* entry = cq.rings.Peek()) {
    const bool is_wanted = Account(cq, *entry);
    cq.rings.Advance();
    if (is_wanted) return true;
  }
  return cq.connection->is_live() ? false : FlushNext(cq);
}

void FinishPoll(CompletionQueue& cq) {
  cq.rings.Publish();
  cq.lock.Unlock();
}

int StartPoll(CompletionQueue& cq) {
  bool has_waited = false;
  for (;;) {
    cq.lock.Lock();
    if (HasNewRings(cq)) [[unlikely]]
      TakeNewRings(cq);
    if (TakeCompletion(cq)) {
      cq.empty_polls = 0;
      t_poller.OnCompletion();
      return 0;
    }
    if (!has_waited) ++cq.empty_polls;
    t_poller.OnEmpty(cq);
    const uint32_t empty_polls = cq.empty_polls;
    FinishPoll(cq);
    if (empty_polls < Poller::kEmptyPollsBeforeWait) return ENOENT;
    if (has_waited || !WaitForTurn(*cq.connection, empty_polls)) break;
    has_waited = true;
  }
  // An overflowed queue has lost completions that its program would wait for without end.
  return rings::LoadRelaxed(cq.page->error.value) != 0 ? EIO : ENOENT;
}

int PollCq(ibv_cq* base, int count, ibv_wc* wcs) {
  CompletionQueue& cq = *Ours(base);
  if (cq.connection->state() == ConnectionState::kForked) return -1;
  if (count <= 0) return 0;
  const int error = StartPoll(cq);
  if (error != 0) return error == ENOENT ? 0 : -1;
  int taken = 0;
  do {
    Describe(cq.current, wcs[taken++]);
  } while (taken < count && TakeCompletion(cq));
  FinishPoll(cq);
  return taken;
}

int RequestNotify(ibv_cq* base, int solicited_only) {
  CompletionQueue& cq = *Ours(base);
  if (cq.connection->state() == ConnectionState::kForked) return EIO;
  rings::Arm(*cq.page, solicited_only != 0);
  return 0;
}

void ForgetCompletions(QueuePair& queue_pair) {
  ibv_cq* const queues[] = {queue_pair.verbs.qp_base.send_cq, queue_pair.verbs.qp_base.recv_cq};
  const uint32_t handle = queue_pair.verbs.qp_base.handle;
  for (ibv_cq* base : queues) {
    if (base == nullptr) continue;
    CompletionQueue& cq = *Ours(base);
    const SpinGuard guard(cq.lock);
    MarkForgotten(cq, handle, 0);
    if (cq.last_queue_pair == &queue_pair) cq.last_queue_pair = nullptr;
  }
}

void ForgetCompletions(SharedReceiveQueue& srq) {
  const SpinGuard guard(srq.cq->lock);
  MarkForgotten(*srq.cq, srq.verbs.handle, UROCE_CQE_XRC);
}

}  // namespace uroce::shim
