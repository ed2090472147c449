// SPDX-License-Identifier: Apache-2.0
// ibv_qp_ex: a list of requests is built call by call, and wr_complete posts all of it or nothing.
// The
// send queue's lock is held from wr_start on. Rules: ibv_wr_post(3).
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

/// Writes the request described so far, if any, to the ring, and does not publish it.
void FinishRequest(QueuePair& queue_pair) {
  Build& build = queue_pair.build;
  if (!build.is_open) return;
  build.is_open = false;
  if (build.error == 0) build.error = WriteSend(queue_pair, build.request);
}

ibv_send_wr& OpenRequest(ibv_qp_ex* base, ibv_wr_opcode opcode) {
  QueuePair& queue_pair = *Ours(base);
  FinishRequest(queue_pair);
  Build& build = queue_pair.build;
  build.is_open = true;
  build.request = {};
  build.request.wr_id = base->wr_id;
  build.request.send_flags = base->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  build.request.opcode = opcode;
  build.request.sg_list = build.sges;
  return build.request;
}

void OpenRdma(ibv_qp_ex* base, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
              __be32 immediate) {
  ibv_send_wr& request = OpenRequest(base, opcode);
  request.imm_data = immediate;
  request.wr.rdma.remote_addr = remote_addr;
  request.wr.rdma.rkey = rkey;
}

void OpenAtomic(ibv_qp_ex* base, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
                uint64_t compare_add, uint64_t swap) {
  ibv_send_wr& request = OpenRequest(base, opcode);
  request.wr.atomic = {remote_addr, compare_add, swap, rkey};
}

void CompareSwap(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
                 uint64_t swap) {
  OpenAtomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}
void FetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, uint64_t add) {
  OpenAtomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}
void Read(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  OpenRdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}
void Write(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr) {
  OpenRdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}
void WriteImmediate(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, __be32 immediate) {
  OpenRdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, immediate);
}
void Send(ibv_qp_ex* qp) { OpenRequest(qp, IBV_WR_SEND); }
void SendImmediate(ibv_qp_ex* qp, __be32 immediate) {
  OpenRequest(qp, IBV_WR_SEND_WITH_IMM).imm_data = immediate;
}
void SendInvalidate(ibv_qp_ex* qp, uint32_t rkey) {
  OpenRequest(qp, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
}

void Bind(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  OpenRequest(qp, IBV_WR_BIND_MW).bind_mw = {mw, rkey, *info};
}
void Invalidate(ibv_qp_ex* qp, uint32_t rkey) {
  OpenRequest(qp, IBV_WR_LOCAL_INV).invalidate_rkey = rkey;
}

void Refuse(ibv_qp_ex* qp, int error) {
  Build& build = Ours(qp)->build;
  if (build.error == 0) build.error = error;
}
void RefuseTso(ibv_qp_ex* qp, void*, uint16_t, uint16_t) { Refuse(qp, EOPNOTSUPP); }

void SetSges(ibv_qp_ex* qp, size_t count, const ibv_sge* sges) {
  Build& build = Ours(qp)->build;
  if (count > UROCE_MAX_SGE) return Refuse(qp, EINVAL);
  for (size_t i = 0; i < count; ++i) build.sges[i] = sges[i];
  build.request.num_sge = static_cast<int>(count);
}
void SetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  const ibv_sge sge = {addr, length, lkey};
  SetSges(qp, 1, &sge);
}

/// Inline bytes go into the ring at once. Later calls change the request in the ring.
bool IsWritten(const QueuePair& queue_pair) {
  const Build& build = queue_pair.build;
  return !build.is_open && build.error == 0 && queue_pair.send.ring.index() != build.first;
}

void SetUdAddress(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  QueuePair& queue_pair = *Ours(qp);
  if (qp->qp_base.qp_type != IBV_QPT_UD) return Refuse(qp, EINVAL);
  Build& build = queue_pair.build;
  build.request.wr.ud = {ah, remote_qpn, remote_qkey};
  if (IsWritten(queue_pair)) SetAddress(queue_pair, build.request);
}

void SetXrcSrqn(ibv_qp_ex* qp, uint32_t remote_srqn) {
  QueuePair& queue_pair = *Ours(qp);
  if (qp->qp_base.qp_type != IBV_QPT_XRC_SEND) return Refuse(qp, EINVAL);
  queue_pair.build.request.qp_type.xrc.remote_srqn = remote_srqn;
  if (IsWritten(queue_pair)) SetRemoteSrq(queue_pair, remote_srqn);
}

/// The program may reuse the bytes after this call, so the request goes into the ring at once.
void SetInline(ibv_qp_ex* qp, void* addr, size_t length) {
  Build& build = Ours(qp)->build;
  if (length > UROCE_MAX_INLINE) return Refuse(qp, EINVAL);
  build.sges[0] = {reinterpret_cast<uint64_t>(addr), static_cast<uint32_t>(length), 0};
  build.request.num_sge = 1;
  build.request.send_flags |= IBV_SEND_INLINE;
  FinishRequest(*Ours(qp));
}

/// The bytes alone are limited: the list may be longer than a list of memory regions.
void SetInlineList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) {
  uint8_t bytes[UROCE_MAX_INLINE];
  size_t length = 0;
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i].length > sizeof(bytes) - length) return Refuse(qp, EINVAL);
    if (buffers[i].length == 0) continue;
    memcpy(bytes + length, buffers[i].addr, buffers[i].length);
    length += buffers[i].length;
  }
  SetInline(qp, bytes, length);
}

/// The program may reuse the eight bytes after this call too.
void AtomicWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, const void* value) {
  OpenRdma(qp, IBV_WR_ATOMIC_WRITE, rkey, remote_addr, 0);
  SetInline(qp, const_cast<void*>(value), sizeof(uint64_t));
}

void Start(ibv_qp_ex* qp) {
  QueuePair& queue_pair = *Ours(qp);
  queue_pair.send.lock.Lock();
  queue_pair.build.first = queue_pair.send.ring.index();
  queue_pair.build.error = CheckSendable(queue_pair);
  queue_pair.build.is_open = false;
}

void Abort(ibv_qp_ex* qp) {
  QueuePair& queue_pair = *Ours(qp);
  queue_pair.build.is_open = false;
  queue_pair.send.ring.Rewind(queue_pair.build.first);
  queue_pair.copies.ring.TakeBack(queue_pair.build.first);
  queue_pair.send.lock.Unlock();
}

int Complete(ibv_qp_ex* qp) {
  QueuePair& queue_pair = *Ours(qp);
  FinishRequest(queue_pair);
  const int error = queue_pair.build.error;
  if (error != 0) {
    Abort(qp);
    return error;
  }
  PublishSends(queue_pair, queue_pair.build.first);
  const bool wants_ring = queue_pair.copies.state == SendCopies::State::kWanted;
  queue_pair.send.lock.Unlock();
  if (wants_ring) [[unlikely]]
    MakeWantedRing(queue_pair);
  return 0;
}

}  // namespace

void FillQpEx(ibv_qp_ex& qp) {
  qp.wr_atomic_cmp_swp = &CompareSwap;
  qp.wr_atomic_fetch_add = &FetchAdd;
  qp.wr_bind_mw = &Bind;
  qp.wr_local_inv = &Invalidate;
  qp.wr_rdma_read = &Read;
  qp.wr_rdma_write = &Write;
  qp.wr_rdma_write_imm = &WriteImmediate;
  qp.wr_send = &Send;
  qp.wr_send_imm = &SendImmediate;
  qp.wr_send_inv = &SendInvalidate;
  qp.wr_send_tso = &RefuseTso;
  qp.wr_set_ud_addr = &SetUdAddress;
  qp.wr_set_xrc_srqn = &SetXrcSrqn;
  qp.wr_set_inline_data = &SetInline;
  qp.wr_set_inline_data_list = &SetInlineList;
  qp.wr_set_sge = &SetSge;
  qp.wr_set_sge_list = &SetSges;
  qp.wr_start = &Start;
  qp.wr_complete = &Complete;
  qp.wr_abort = &Abort;
  qp.wr_atomic_write = &AtomicWrite;
}

}  // namespace uroce::shim
