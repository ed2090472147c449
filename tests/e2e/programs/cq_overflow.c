/* SPDX-License-Identifier: Apache-2.0
 * A completion queue that overflows by what one of its queue pairs completes takes all of them into
 * error, on whatever worker they live, and no other.
 *
 * usage: cq_overflow [-x GID_INDEX] [-y GID_INDEX] */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kPairs = 4, kDepth = 64, kEntries = 4, kDeadlineS = 60 };

static void post_empty_write(struct ibv_qp* qp) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static enum ibv_qp_state state_of(struct ibv_qp* qp) {
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  bench_require(!ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), "ibv_query_qp");
  return attributes.qp_state;
}

static void expect_overflow(const struct bench_end* end) {
  struct pollfd readable = {end->context->async_fd, POLLIN, 0};
  struct ibv_async_event event;
  bench_require(poll(&readable, 1, kDeadlineS * 1000) == 1, "an event");
  bench_require(!ibv_get_async_event(end->context, &event), "ibv_get_async_event");
  bench_require(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == end->cq, "CQ_ERR");
  ibv_ack_async_event(&event);
}

static void expect_works(const struct bench_end* end, struct ibv_qp* qp) {
  struct ibv_wc wc;
  int count;
  post_empty_write(qp);
  while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) continue;
  bench_require(count == 1 && wc.status == IBV_WC_SUCCESS, "a bystander's WRITE");
}

int main(int argc, char** argv) {
  uint32_t gids[2] = {1, 1};
  for (int option; (option = getopt(argc, argv, "x:y:")) != -1;) {
    if (option == '?') return 2;
    gids[option - 'x'] = (uint32_t)strtoul(optarg, NULL, 0);
  }
  struct bench_end small = {0};
  struct bench_end bystander = {0};
  struct bench_end peer = {0};
  bench_open(&small, "uroce0", gids[0], kEntries);
  bench_open(&bystander, "uroce0", gids[0], kDepth);
  bench_open(&peer, "uroce1", gids[1], kDepth);
  struct ibv_qp* qps[kPairs];
  struct ibv_qp* bystanders[kPairs];
  for (int i = 0; i < kPairs; ++i) {
    qps[i] = bench_make_qp(&small, kDepth, 0);
    bench_connect(&small, qps[i], &peer, bench_make_qp(&peer, kDepth, 0));
    bystanders[i] = bench_make_qp(&bystander, kDepth, 0);
    bench_connect(&bystander, bystanders[i], &peer, bench_make_qp(&peer, kDepth, 0));
  }
  for (int i = 0; i <= small.cq->cqe; ++i) post_empty_write(qps[0]);
  expect_overflow(&small);
  const time_t deadline = time(NULL) + kDeadlineS;
  for (int i = 0; i < kPairs; ++i) {
    while (state_of(qps[i]) != IBV_QPS_ERR) bench_require(time(NULL) < deadline, "all in error");
  }
  for (int i = 0; i < kPairs; ++i) expect_works(&bystander, bystanders[i]);
  puts("all in error, and no other");
  return 0;
}
