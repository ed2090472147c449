/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends live in this process. A case posts on end 0 and looks at the completions of both. */
#include "errors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct pair {
  struct vc_side a;
  struct vc_side b;
};

static void open_pair(struct pair* pair, const struct vc_options* options) {
  vc_side_open(&pair->a, options, 0);
  vc_side_open(&pair->b, options, 1);
  vc_side_to_init(&pair->a);
  vc_side_to_init(&pair->b);
  pair->a.peer = pair->b.info;
  pair->b.peer = pair->a.info;
  vc_side_connect(&pair->a);
  vc_side_connect(&pair->b);
}

static void close_pair(struct pair* pair) {
  vc_side_close(&pair->a);
  vc_side_close(&pair->b);
}

static void post(struct vc_side* side, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t length,
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

static void post_receive(struct vc_side* side, uint64_t wr_id, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)side->inbox.bytes, length, side->inbox.mr->lkey};
  struct ibv_recv_wr request = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  const int error = ibv_post_recv(side->qp, &request, &bad);
  if (error) vc_die(side, "ibv_post_recv: %s", strerror(error));
}

static void expect(struct vc_side* side, struct ibv_cq* cq, uint64_t wr_id,
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
}

static void expect_nothing(struct vc_side* side) {
  struct ibv_wc wc;
  if (ibv_poll_cq(side->send_cq, 1, &wc) || ibv_poll_cq(side->recv_cq, 1, &wc)) {
    vc_die(side, "a completion too many: %lu, %s", wc.wr_id, ibv_wc_status_str(wc.status));
  }
}

static void expect_state(struct vc_side* side, enum ibv_qp_state state) {
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(side->qp, &attributes, IBV_QP_STATE, &init)) vc_die(side, "ibv_query_qp failed");
  if (attributes.qp_state != state) {
    vc_die(side, "the queue pair is in state %d, not %d", (int)attributes.qp_state, (int)state);
  }
}

/* A request that the responder refuses: it fails so, what is behind it is flushed, the peer's
 * receives too, and memory stays as it was. */
static void refused(struct pair* pair, enum ibv_wr_opcode opcode, uint64_t remote_addr,
                    uint32_t rkey, enum ibv_wc_status status) {
  uint8_t before[256];
  memcpy(before, pair->b.writable.bytes, sizeof(before));
  memset(pair->a.sink.bytes, 0x77, 256);
  post_receive(&pair->b, 7, 64);
  post(&pair->a, 1, opcode, 8, remote_addr, rkey);
  post(&pair->a, 2, IBV_WR_RDMA_WRITE, 8, pair->a.peer.writable_addr, pair->a.peer.writable_rkey);
  expect(&pair->a, pair->a.send_cq, 1, status);
  expect(&pair->a, pair->a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
  expect(&pair->b, pair->b.recv_cq, 7, IBV_WC_WR_FLUSH_ERR);
  expect_state(&pair->a, IBV_QPS_ERR);
  expect_state(&pair->b, IBV_QPS_ERR);
  expect_nothing(&pair->a);
  expect_nothing(&pair->b);
  if (memcmp(before, pair->b.writable.bytes, sizeof(before))) {
    vc_die(&pair->b, "refused, and yet memory has changed");
  }
}

static void bad_rkey(struct pair* pair) {
  const struct vc_info* peer = &pair->a.peer;
  refused(pair, IBV_WR_RDMA_WRITE, peer->writable_addr, peer->writable_rkey ^ 0x5a5a00,
          IBV_WC_REM_ACCESS_ERR);
}

static void read_bad_rkey(struct pair* pair) {
  const struct vc_info* peer = &pair->a.peer;
  refused(pair, IBV_WR_RDMA_READ, peer->readable_addr, peer->readable_rkey ^ 0x5a5a00,
          IBV_WC_REM_ACCESS_ERR);
}

static void write_past_the_end(struct pair* pair) {
  refused(pair, IBV_WR_RDMA_WRITE, pair->a.peer.writable_addr + pair->b.writable.length - 7,
          pair->a.peer.writable_rkey, IBV_WC_REM_ACCESS_ERR);
}

static void write_before_the_start(struct pair* pair) {
  refused(pair, IBV_WR_RDMA_WRITE, pair->a.peer.writable_addr - 1, pair->a.peer.writable_rkey,
          IBV_WC_REM_ACCESS_ERR);
}

static void write_to_readable(struct pair* pair) {
  refused(pair, IBV_WR_RDMA_WRITE, pair->a.peer.readable_addr, pair->a.peer.readable_rkey,
          IBV_WC_REM_ACCESS_ERR);
}

static void read_of_writable(struct pair* pair) {
  refused(pair, IBV_WR_RDMA_READ, pair->a.peer.writable_addr, pair->a.peer.writable_rkey,
          IBV_WC_REM_ACCESS_ERR);
}

static void atomic_without_access(struct pair* pair) {
  refused(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, pair->a.peer.writable_addr & ~7ull,
          pair->a.peer.writable_rkey, IBV_WC_REM_ACCESS_ERR);
}

static void unaligned_atomic(struct pair* pair) {
  refused(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, pair->a.peer.atomics_addr + 1,
          pair->a.peer.atomics_rkey, IBV_WC_REM_INV_REQ_ERR);
}

static void bad_lkey(struct pair* pair) {
  pair->a.sink.mr->lkey ^= 0x5a5a00;
  post(&pair->a, 1, IBV_WR_RDMA_WRITE, 8, pair->a.peer.writable_addr, pair->a.peer.writable_rkey);
  pair->a.sink.mr->lkey ^= 0x5a5a00;
  post(&pair->a, 2, IBV_WR_RDMA_WRITE, 8, pair->a.peer.writable_addr, pair->a.peer.writable_rkey);
  expect(&pair->a, pair->a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
  expect(&pair->a, pair->a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
  expect_state(&pair->a, IBV_QPS_ERR);
  expect_state(&pair->b, IBV_QPS_RTS);
}

/* A message longer than its receive is an invalid request to the sender (IBTA vol. 1, 9.7.5.1.8).
 */
static void message_too_long(struct pair* pair) {
  post_receive(&pair->b, 7, 100);
  post(&pair->a, 1, IBV_WR_SEND, 101, 0, 0);
  expect(&pair->a, pair->a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
  expect(&pair->b, pair->b.recv_cq, 7, IBV_WC_LOC_LEN_ERR);
  expect_state(&pair->b, IBV_QPS_ERR);
}

static void peer_gone(struct pair* pair) {
  if (ibv_destroy_qp(pair->b.qp)) vc_die(&pair->b, "ibv_destroy_qp failed");
  post(&pair->a, 1, IBV_WR_RDMA_WRITE, 8, pair->a.peer.writable_addr, pair->a.peer.writable_rkey);
  post(&pair->a, 2, IBV_WR_SEND, 8, 0, 0);
  expect(&pair->a, pair->a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
  expect(&pair->a, pair->a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
  expect_state(&pair->a, IBV_QPS_ERR);
  struct ibv_qp_init_attr attributes = {.send_cq = pair->b.send_cq,
                                        .recv_cq = pair->b.recv_cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {1, 1, 1, 1, 0}};
  pair->b.qp = ibv_create_qp(pair->b.pd, &attributes);
  if (!pair->b.qp) vc_die(&pair->b, "ibv_create_qp: %s", strerror(errno));
}

static void receiver_never_ready(struct pair* pair) {
  post(&pair->a, 1, IBV_WR_SEND, 8, 0, 0);
  post(&pair->a, 2, IBV_WR_SEND, 8, 0, 0);
  expect(&pair->a, pair->a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  expect(&pair->a, pair->a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
  expect_state(&pair->a, IBV_QPS_ERR);
  expect_state(&pair->b, IBV_QPS_RTS);
  expect_nothing(&pair->b);
}

static void flush_by_modify(struct pair* pair) {
  for (uint64_t i = 0; i < 5; ++i) post_receive(&pair->b, 10 + i, 64);
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
  if (ibv_modify_qp(pair->b.qp, &attributes, IBV_QP_STATE)) vc_die(&pair->b, "to ERR failed");
  for (uint64_t i = 0; i < 5; ++i) expect(&pair->b, pair->b.recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
  /* What is posted in the error state is flushed too. */
  post_receive(&pair->b, 20, 64);
  expect(&pair->b, pair->b.recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
  post(&pair->b, 21, IBV_WR_SEND, 8, 0, 0);
  expect(&pair->b, pair->b.send_cq, 21, IBV_WC_WR_FLUSH_ERR);
  expect_nothing(&pair->b);
}

static const struct error_case {
  const char* name;
  void (*run)(struct pair*);
} kCases[] = {
    {"bad-rkey", bad_rkey},
    {"read-bad-rkey", read_bad_rkey},
    {"write-past-the-end", write_past_the_end},
    {"write-before-the-start", write_before_the_start},
    {"write-to-readable", write_to_readable},
    {"read-of-writable", read_of_writable},
    {"atomic-without-access", atomic_without_access},
    {"unaligned-atomic", unaligned_atomic},
    {"bad-lkey", bad_lkey},
    {"message-too-long", message_too_long},
    {"peer-gone", peer_gone},
    {"receiver-never-ready", receiver_never_ready},
    {"flush-by-modify", flush_by_modify},
};

int vc_run_errors(const struct vc_options* options, const char* name) {
  int found = 0;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    if (strcmp(name, "all") && strcmp(name, kCases[i].name)) continue;
    struct pair pair;
    open_pair(&pair, options);
    kCases[i].run(&pair);
    close_pair(&pair);
    printf("verbs_check: %s: right\n", kCases[i].name);
    fflush(stdout);
    found = 1;
  }
  if (!found) fprintf(stderr, "verbs_check: no case '%s'\n", name);
  return found ? 0 : 2;
}
