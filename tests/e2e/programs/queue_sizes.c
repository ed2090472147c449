/* SPDX-License-Identifier: Apache-2.0
 * What is granted is what holds: a send queue takes as many requests as it says, though nothing of
 * it has completed, and not one more. And a program that asks for 1024 and has one completion for
 * 1024 WRITEs posts the next ones before that has come, since Soft-RoCE grants 2047.
 *
 * usage: queue_room GID_INDEX_OF_UROCE0 GID_INDEX_OF_UROCE1 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kAsked = 1024, kSoftRoceGrants = 2047, kRounds = 200 };

static struct bench_end from, to;

static int post(struct ibv_qp* qp, int signaled) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = signaled ? IBV_SEND_SIGNALED : 0};
  struct ibv_send_wr* bad = NULL;
  return ibv_post_send(qp, &wr, &bad);
}

static void await_completion(void) {
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(from.cq, 1, &wc)) == 0) continue;
  bench_require(got == 1 && wc.status == IBV_WC_SUCCESS, "a completion of success");
}

static struct ibv_qp* connected(void) {
  struct ibv_qp* qp = bench_make_qp(&from, kAsked, 0);
  bench_connect(&from, qp, &to, bench_make_qp(&to, 1, 0));
  return qp;
}

static void fill(struct ibv_qp* qp) {
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  bench_require(!ibv_query_qp(qp, &attributes, IBV_QP_CAP, &init), "ibv_query_qp");
  const uint32_t granted = init.cap.max_send_wr;
  bench_require(granted >= kSoftRoceGrants, "what Soft-RoCE grants");
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 1; i <= granted; ++i) bench_require(!post(qp, i == granted), "room");
    bench_require(post(qp, 1) == ENOMEM, "ENOMEM for one more");
    await_completion();
  }
}

/* One batch ahead of the completion that is waited for. */
static void signal_the_last_of_many(struct ibv_qp* qp) {
  for (uint32_t i = 1; i <= kRounds * kAsked; ++i) {
    bench_require(!post(qp, i % kAsked == 0), "room for the next batch");
    if (i >= kSoftRoceGrants && i % kAsked == kAsked - 1) await_completion();
  }
  await_completion();
}

int main(int argc, char** argv) {
  bench_require(argc == 3, "two GID indices");
  bench_open(&from, "uroce0", (uint32_t)atoi(argv[1]), 16);
  bench_open(&to, "uroce1", (uint32_t)atoi(argv[2]), 16);
  fill(connected());
  signal_the_last_of_many(connected());
  puts("as much room as was granted");
  return 0;
}
