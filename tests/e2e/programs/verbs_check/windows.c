/* SPDX-License-Identifier: Apache-2.0
 * Memory windows of type 2 between two ends: bound by the target, written through by the requester,
 * and taken back by either. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define PART_OFFSET 1000 /* Of the region, what the window grants. */
#define PART_BYTES 2000
#define REGION_BYTES 4096
#define BIND 1 /* wr_id of the target's works. */
#define INVALIDATE 2

/* The target's, from its preparation to its check: ends of one process run a case at a time. */
static struct {
  struct vc_memory region;
  struct ibv_mw* window;
} owned;

static void post_local(struct vc_side* target, struct ibv_send_wr* request) {
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(target->qp, request, &bad);
  if (error) vc_die(target, "ibv_post_send: %s", strerror(error));
  vc_expect(target, target->send_cq, request->wr_id, IBV_WC_SUCCESS);
}

/* Where the requester is told to write: into the window. */
static void bind_window(struct vc_side* target) {
  struct vc_memory* region = &owned.region;
  region->length = REGION_BYTES;
  region->bytes = calloc(1, region->length);
  if (!region->bytes) vc_die(target, "out of memory");
  region->mr = ibv_reg_mr(target->pd, region->bytes, region->length,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  if (!region->mr) vc_die(target, "ibv_reg_mr: %s", strerror(errno));
  owned.window = ibv_alloc_mw(target->pd, IBV_MW_TYPE_2);
  if (!owned.window) vc_die(target, "ibv_alloc_mw: %s", strerror(errno));
  const uint64_t address = (uintptr_t)region->bytes + PART_OFFSET;
  struct ibv_send_wr request = {
      .wr_id = BIND, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
  request.bind_mw.mw = owned.window;
  request.bind_mw.rkey = ibv_inc_rkey(owned.window->rkey);
  request.bind_mw.bind_info.mr = region->mr;
  request.bind_mw.bind_info.addr = address;
  request.bind_mw.bind_info.length = PART_BYTES;
  request.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
  post_local(target, &request);
  target->info.writable_addr = address;
  target->info.writable_rkey = request.bind_mw.rkey;
}

static void bind_and_receive(struct vc_side* target) {
  bind_window(target);
  vc_post_receive(target, VC_RECEIVE, 64);
}

static void bind_and_take_back(struct vc_side* target) {
  bind_window(target);
  struct ibv_send_wr request = {
      .wr_id = INVALIDATE, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
  request.invalidate_rkey = target->info.writable_rkey;
  post_local(target, &request);
}

/* Eight bytes of the requester's to `offset` of the window. */
static void write_to(struct vc_side* requester, uint64_t offset, enum ibv_wc_status status) {
  memset(requester->sink.bytes, 0xa5, 8);
  vc_post(requester, offset, IBV_WR_RDMA_WRITE, 8, requester->peer.writable_addr + offset,
          requester->peer.writable_rkey);
  vc_expect(requester, requester->send_cq, offset, status);
}

static void write_within_and_beyond(struct vc_side* requester) {
  write_to(requester, 0, IBV_WC_SUCCESS);
  write_to(requester, PART_BYTES - 8, IBV_WC_SUCCESS);
  /* rdma_rxe of Linux 6.1 looks at the bounds of the window's region alone. */
  const int rxe = requester->options->rxe_end == 1;
  write_to(requester, rxe ? REGION_BYTES - PART_OFFSET - 7 : PART_BYTES - 7, IBV_WC_REM_ACCESS_ERR);
}

static void write_and_send_invalidate(struct vc_side* requester) {
  write_to(requester, 0, IBV_WC_SUCCESS);
  write_to(requester, PART_BYTES - 8, IBV_WC_SUCCESS);
  struct ibv_sge sge = {(uintptr_t)requester->sink.bytes, 8, requester->sink.mr->lkey};
  struct ibv_send_wr request = {.wr_id = INVALIDATE,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND_WITH_INV,
                                .send_flags = IBV_SEND_SIGNALED};
  request.invalidate_rkey = requester->peer.writable_rkey;
  post_local(requester, &request);
}

static void write_and_invalidate(struct vc_side* requester) {
  write_and_send_invalidate(requester);
  write_to(requester, 0, IBV_WC_REM_ACCESS_ERR);
}

static void write_in_vain(struct vc_side* requester) {
  write_to(requester, 0, IBV_WC_REM_ACCESS_ERR);
}

/* The region has what was written, and nothing else. */
static void check_region(struct vc_side* target, int written) {
  uint8_t expected[REGION_BYTES] = {0};
  if (written) {
    memset(expected + PART_OFFSET, 0xa5, 8);
    memset(expected + PART_OFFSET + PART_BYTES - 8, 0xa5, 8);
  }
  if (memcmp(expected, owned.region.bytes, REGION_BYTES)) vc_die(target, "wrong bytes");
  if (ibv_dealloc_mw(owned.window)) vc_die(target, "ibv_dealloc_mw failed");
  if (ibv_dereg_mr(owned.region.mr)) vc_die(target, "ibv_dereg_mr failed");
  free(owned.region.bytes);
}

static void check_written(struct vc_side* target) {
  vc_expect_state(target, IBV_QPS_ERR);
  vc_expect_nothing(target);
  check_region(target, 1);
}

static void expect_invalidated(struct vc_side* target) {
  const struct ibv_wc wc = vc_expect(target, target->recv_cq, VC_RECEIVE, IBV_WC_SUCCESS);
  /* rdma_rxe says it by the kernel's bit, which is another. */
  const unsigned flag = target->options->rxe_end == 1 ? 1u << 2 : IBV_WC_WITH_INV;
  if (!(wc.wc_flags & flag) || wc.invalidated_rkey != target->info.writable_rkey) {
    vc_die(target, "no key taken back: flags %#x, key %#x", wc.wc_flags, wc.invalidated_rkey);
  }
}

static void check_invalidated(struct vc_side* target) {
  expect_invalidated(target);
  check_written(target);
}

/* With losses: a NAK that is lost leaves its requester without an answer. */
static void check_invalidated_alone(struct vc_side* target) {
  expect_invalidated(target);
  vc_expect_nothing(target);
  check_region(target, 1);
}

static void check_unwritten(struct vc_side* target) {
  vc_expect_state(target, IBV_QPS_ERR);
  check_region(target, 0);
}

const struct vc_case vc_window_cases[] = {
    {"window", bind_window, write_within_and_beyond, check_written},
    {"window-invalidated-by-send", bind_and_receive, write_and_invalidate, check_invalidated},
    {"window-invalidated-with-losses", bind_and_receive, write_and_send_invalidate,
     check_invalidated_alone},
    {"window-taken-back", bind_and_take_back, write_in_vain, check_unwritten},
    {NULL, NULL, NULL, NULL},
};
