/* SPDX-License-Identifier: Apache-2.0
 * Posts and completes. */
#include "request.h"

int try_post(struct end* end, const struct request* request) {
  struct ibv_sge sge = {.addr = (uintptr_t)request->local->addr + request->local_at,
                        .length = request->length,
                        .lkey = request->local->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = request->opcode, .send_flags = IBV_SEND_SIGNALED};
  const uint64_t remote_addr = (uintptr_t)request->remote->addr + request->remote_at;
  if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.rkey = request->remote->rkey;
    wr.wr.atomic.compare_add = request->add;
  } else {
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = request->remote->rkey;
  }
  struct ibv_send_wr* bad;
  return ibv_post_send(end->qp, &wr, &bad);
}

void post(struct end* end, const struct request* request) {
  if (try_post(end, request) != 0) fail("ibv_post_send");
}

enum ibv_wc_status complete(struct end* end) {
  struct ibv_wc wc;
  int count;
  do {
    count = ibv_poll_cq(end->cq, 1, &wc);
  } while (count == 0);
  return count == 1 ? wc.status : IBV_WC_GENERAL_ERR;
}

enum ibv_wc_status perform(struct end* end, const struct request* request) {
  post(end, request);
  return complete(end);
}

struct ibv_mr* register_all_rights(struct end* end, void* address, size_t length) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;
  struct ibv_mr* region = ibv_reg_mr(end->pd, address, length, access);
  if (region == NULL) fail("ibv_reg_mr");
  return region;
}
