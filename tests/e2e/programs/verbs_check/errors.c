/* SPDX-License-Identifier: Apache-2.0
 * Statuses are those of the standard; where rdma_rxe of Linux 6.1 has others, `rxe` names them. */
#include "errors.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"

#define REQUESTER 0
#define TARGET 1

/* One end's part in a case. */
struct part {
  const struct vc_options* options;
  const struct vc_case* error_case;
  int index;
};

/* What an end reports, by who it is: `rxe` when `end` runs on rdma_rxe. */
static enum ibv_wc_status if_rxe(const struct vc_side* side, int end, enum ibv_wc_status rxe,
                                 enum ibv_wc_status standard) {
  return side->options->rxe_end == end ? rxe : standard;
}

void vc_post(struct vc_side* side, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t length,
             uint64_t remote_addr, uint32_t rkey) {
  struct ibv_sge sge = {(uintptr_t)side->sink.bytes, length, side->sink.mr->lkey};
  struct ibv_send_wr request = {.wr_id = wr_id,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = opcode,
                                .send_flags = IBV_SEND_SIGNALED};
  request.wr.rdma.remote_addr = remote_addr;
  request.wr.rdma.rkey = rkey;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = remote_addr;
    request.wr.atomic.compare_add = 1;
    request.wr.atomic.swap = 0;
    request.wr.atomic.rkey = rkey;
  }
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(side->qp, &request, &bad);
  if (error) vc_die(side, "ibv_post_send: %s", strerror(error));
}

void vc_post_receive(struct vc_side* side, uint64_t wr_id, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)side->inbox.bytes, length, side->inbox.mr->lkey};
  struct ibv_recv_wr request = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  const int error = ibv_post_recv(side->qp, &request, &bad);
  if (error) vc_die(side, "ibv_post_recv: %s", strerror(error));
}

struct ibv_wc vc_expect(struct vc_side* side, struct ibv_cq* cq, uint64_t wr_id,
                        enum ibv_wc_status status) {
  const time_t deadline = time(NULL) + side->options->deadline_s;
  struct ibv_wc wc;
  int count = 0;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
    if (time(NULL) > deadline) {
      vc_die(side, "no completion of %lu, expected: %s", wr_id, ibv_wc_status_str(status));
    }
  }
  if (count < 0) vc_die(side, "ibv_poll_cq failed");
  if (wc.wr_id != wr_id || wc.status != status) {
    vc_die(side, "completion of %lu: %s; expected %lu: %s", wc.wr_id, ibv_wc_status_str(wc.status),
           wr_id, ibv_wc_status_str(status));
  }
  return wc;
}

void vc_expect_nothing(struct vc_side* side) {
  struct ibv_wc wc;
  if (ibv_poll_cq(side->send_cq, 1, &wc) || ibv_poll_cq(side->recv_cq, 1, &wc)) {
    vc_die(side, "a completion too many: %lu, %s", wc.wr_id, ibv_wc_status_str(wc.status));
  }
}

void vc_expect_state(struct vc_side* side, enum ibv_qp_state state) {
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(side->qp, &attributes, IBV_QP_STATE, &init)) vc_die(side, "ibv_query_qp failed");
  if (attributes.qp_state != state) {
    vc_die(side, "the queue pair is in state %d, not %d", (int)attributes.qp_state, (int)state);
  }
}

static void post_write(struct vc_side* side, uint64_t wr_id) {
  vc_post(side, wr_id, IBV_WR_RDMA_WRITE, 8, side->peer.writable_addr, side->peer.writable_rkey);
}

/* The first request failed with `status`, what is behind it is flushed. */
static void expect_failed(struct vc_side* requester, enum ibv_wc_status status) {
  vc_expect(requester, requester->send_cq, 1, status);
  vc_expect(requester, requester->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
  vc_expect_state(requester, IBV_QPS_ERR);
  vc_expect_nothing(requester);
}

static void request_refused(struct vc_side* requester, enum ibv_wr_opcode opcode,
                            uint64_t remote_addr, uint32_t rkey, enum ibv_wc_status status) {
  vc_post(requester, 1, opcode, 8, remote_addr, rkey);
  post_write(requester, 2);
  expect_failed(requester, status);
}

static void prepare_refusal(struct vc_side* target) { vc_post_receive(target, VC_RECEIVE, 64); }

/* The target has refused: its receives are flushed, and memory is as it was. */
static void check_refusal(struct vc_side* target) {
  vc_expect(target, target->recv_cq, VC_RECEIVE, IBV_WC_WR_FLUSH_ERR);
  vc_expect_state(target, IBV_QPS_ERR);
  vc_expect_nothing(target);
  uint8_t* first = malloc(target->writable.length);
  if (!first) vc_die(target, "out of memory");
  vc_fill(first, target->writable.length, target->options->seed, target->index, VC_WRITABLE);
  if (memcmp(first, target->writable.bytes, target->writable.length)) {
    vc_die(target, "refused, and yet memory has changed");
  }
  free(first);
}

static void bad_rkey(struct vc_side* side) {
  request_refused(side, IBV_WR_RDMA_WRITE, side->peer.writable_addr,
                  side->peer.writable_rkey ^ 0x5a5a00, IBV_WC_REM_ACCESS_ERR);
}

static void read_bad_rkey(struct vc_side* side) {
  request_refused(side, IBV_WR_RDMA_READ, side->peer.readable_addr,
                  side->peer.readable_rkey ^ 0x5a5a00, IBV_WC_REM_ACCESS_ERR);
}

static void write_past_the_end(struct vc_side* side) {
  /* The areas of both ends have one size. */
  request_refused(side, IBV_WR_RDMA_WRITE, side->peer.writable_addr + side->writable.length - 7,
                  side->peer.writable_rkey, IBV_WC_REM_ACCESS_ERR);
}

static void write_before_the_start(struct vc_side* side) {
  request_refused(side, IBV_WR_RDMA_WRITE, side->peer.writable_addr - 1, side->peer.writable_rkey,
                  IBV_WC_REM_ACCESS_ERR);
}

static void write_to_readable(struct vc_side* side) {
  request_refused(side, IBV_WR_RDMA_WRITE, side->peer.readable_addr, side->peer.readable_rkey,
                  IBV_WC_REM_ACCESS_ERR);
}

static void read_of_writable(struct vc_side* side) {
  request_refused(side, IBV_WR_RDMA_READ, side->peer.writable_addr, side->peer.writable_rkey,
                  IBV_WC_REM_ACCESS_ERR);
}

static void atomic_without_access(struct vc_side* side) {
  request_refused(side, IBV_WR_ATOMIC_FETCH_AND_ADD, side->peer.writable_addr & ~7ull,
                  side->peer.writable_rkey, IBV_WC_REM_ACCESS_ERR);
}

static void unaligned_atomic(struct vc_side* side) {
  request_refused(side, IBV_WR_ATOMIC_FETCH_AND_ADD, side->peer.atomics_addr + 1,
                  side->peer.atomics_rkey, IBV_WC_REM_INV_REQ_ERR);
}

static void bad_lkey(struct vc_side* side) {
  side->sink.mr->lkey ^= 0x5a5a00;
  post_write(side, 1);
  side->sink.mr->lkey ^= 0x5a5a00;
  post_write(side, 2);
  expect_failed(side, if_rxe(side, REQUESTER, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR));
}

static void check_untroubled(struct vc_side* target) {
  vc_expect_state(target, IBV_QPS_RTS);
  vc_expect_nothing(target);
}

static void prepare_short_receive(struct vc_side* target) {
  vc_post_receive(target, VC_RECEIVE, 100);
}

/* A message longer than its receive is an invalid request to the sender (IBTA vol. 1, 9.7.5.1.8).
 */
static void send_too_long(struct vc_side* side) {
  vc_post(side, 1, IBV_WR_SEND, 101, 0, 0);
  vc_expect(side, side->send_cq, 1,
            if_rxe(side, TARGET, IBV_WC_REM_OP_ERR, IBV_WC_REM_INV_REQ_ERR));
}

static void check_too_long(struct vc_side* target) {
  vc_expect(target, target->recv_cq, VC_RECEIVE,
            if_rxe(target, TARGET, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_LEN_ERR));
  vc_expect_state(target, IBV_QPS_ERR);
}

/* No queue pair has the number any more that the requester knows. */
static void replace_queue_pair(struct vc_side* target) {
  struct ibv_qp_init_attr attributes = {.send_cq = target->send_cq,
                                        .recv_cq = target->recv_cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {1, 1, 1, 1, 0}};
  if (ibv_destroy_qp(target->qp)) vc_die(target, "ibv_destroy_qp failed");
  target->qp = ibv_create_qp(target->pd, &attributes);
  if (!target->qp) vc_die(target, "ibv_create_qp: %s", strerror(errno));
}

static void request_replaced(struct vc_side* side) {
  post_write(side, 1);
  vc_post(side, 2, IBV_WR_SEND, 8, 0, 0);
  expect_failed(side, IBV_WC_RETRY_EXC_ERR);
}

static void send_to_unready(struct vc_side* side) {
  vc_post(side, 1, IBV_WR_SEND, 8, 0, 0);
  vc_post(side, 2, IBV_WR_SEND, 8, 0, 0);
  expect_failed(side, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void flush_by_modify(struct vc_side* target) {
  for (uint64_t i = 0; i < 5; ++i) vc_post_receive(target, 10 + i, 64);
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
  if (ibv_modify_qp(target->qp, &attributes, IBV_QP_STATE)) vc_die(target, "to ERR failed");
  for (uint64_t i = 0; i < 5; ++i) vc_expect(target, target->recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
  /* What is posted in the error state is flushed too. */
  vc_post_receive(target, 20, 64);
  vc_expect(target, target->recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
  vc_post(target, 21, IBV_WR_SEND, 8, 0, 0);
  vc_expect(target, target->send_cq, 21, IBV_WC_WR_FLUSH_ERR);
  vc_expect_nothing(target);
}

static const struct vc_case kCases[] = {
    {"bad-rkey", prepare_refusal, bad_rkey, check_refusal},
    {"read-bad-rkey", prepare_refusal, read_bad_rkey, check_refusal},
    {"write-past-the-end", prepare_refusal, write_past_the_end, check_refusal},
    {"write-before-the-start", prepare_refusal, write_before_the_start, check_refusal},
    {"write-to-readable", prepare_refusal, write_to_readable, check_refusal},
    {"read-of-writable", prepare_refusal, read_of_writable, check_refusal},
    {"atomic-without-access", prepare_refusal, atomic_without_access, check_refusal},
    {"unaligned-atomic", prepare_refusal, unaligned_atomic, check_refusal},
    {"bad-lkey", NULL, bad_lkey, check_untroubled},
    {"message-too-long", prepare_short_receive, send_too_long, check_too_long},
    {"peer-gone", replace_queue_pair, request_replaced, NULL},
    {"receiver-never-ready", NULL, send_to_unready, check_untroubled},
    {"flush-by-modify", NULL, NULL, flush_by_modify},
    {NULL, NULL, NULL, NULL},
};

static void meet(struct vc_side* side, const struct vc_case* error_case, const char* where) {
  char name[64];
  snprintf(name, sizeof(name), "%s.%s", error_case->name, where);
  vc_side_exchange(side, name);
}

static void* run_part(void* argument) {
  const struct part* part = argument;
  const struct vc_case* error_case = part->error_case;
  const int is_target = part->index == TARGET;
  struct vc_side side;
  vc_side_open(&side, part->options, part->index);
  vc_side_to_init(&side);
  meet(&side, error_case, "made");
  vc_side_connect(&side);
  if (is_target && error_case->prepare) error_case->prepare(&side);
  meet(&side, error_case, "prepared");
  if (!is_target && error_case->request) error_case->request(&side);
  meet(&side, error_case, "requested");
  if (is_target && error_case->check) error_case->check(&side);
  vc_side_close(&side);
  return NULL;
}

static void run_case(const struct vc_options* options, const struct vc_case* error_case) {
  struct part parts[2] = {{options, error_case, REQUESTER}, {options, error_case, TARGET}};
  if (options->role >= 0) {
    run_part(&parts[options->role]);
  } else {
    pthread_t other;
    if (pthread_create(&other, NULL, run_part, &parts[TARGET])) abort();
    run_part(&parts[REQUESTER]);
    pthread_join(other, NULL);
  }
  printf("verbs_check: %s: right\n", error_case->name);
  fflush(stdout);
}

static int run_cases(const struct vc_options* options, const struct vc_case* cases,
                     const char* name) {
  int found = 0;
  for (; cases->name; ++cases) {
    if (strcmp(name, "all") && strcmp(name, cases->name)) continue;
    run_case(options, cases);
    found = 1;
  }
  return found;
}

int vc_run_errors(const struct vc_options* options, const char* name) {
  int found = run_cases(options, kCases, name);
  found |= run_cases(options, vc_window_cases, name);
  found |= run_cases(options, vc_lossy_cases, name);
  if (!found) fprintf(stderr, "verbs_check: no case '%s'\n", name);
  return found ? 0 : 2;
}
