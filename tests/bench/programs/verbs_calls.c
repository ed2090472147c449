/* SPDX-License-Identifier: Apache-2.0
 * What the calls themselves cost a program: posting an inline 64 byte WRITE, polling an empty
 * completion queue and one that holds completions, and a pair of queue pairs from creation to RTS.
 * Medians of many batches, and the least, which other work on the machine disturbs less; an empty
 * poll without its yield.
 * usage: verbs_calls [GID_INDEX_A GID_INDEX_B] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs_pair.h"

#define BATCH 64
#define BATCHES 200
#define POLLS 1000
#define PAIRS 50
#define BYTES 64

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static void report(const char* what, double* values, size_t count) {
  qsort(values, count, sizeof(*values), compare);
  printf("%s %.1f least %.1f\n", what, values[count / 2], values[0]);
}

struct target {
  uint64_t address;
  uint32_t rkey;
};

/* Nanoseconds of one post. */
static double post_batch(struct ibv_qp* qp, const struct target* target) {
  char bytes[BYTES] = {0};
  struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes), 0};
  struct ibv_send_wr request = {.sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
  request.wr.rdma.remote_addr = target->address;
  request.wr.rdma.rkey = target->rkey;
  struct ibv_send_wr* bad;
  const double begin = now_ns();
  for (int i = 0; i < BATCH; ++i) bench_require(!ibv_post_send(qp, &request, &bad), "post_send");
  return (now_ns() - begin) / BATCH;
}

/* Nanoseconds of one poll that takes one completion; all of a batch wait. */
static double poll_batch(struct ibv_cq* cq) {
  struct ibv_wc wc;
  const double begin = now_ns();
  for (int i = 0; i < BATCH; ++i) {
    bench_require(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "a completion");
  }
  return (now_ns() - begin) / BATCH;
}

static double poll_empty(struct ibv_cq* cq) {
  struct ibv_wc wc;
  const double begin = now_ns();
  for (int i = 0; i < POLLS; ++i) bench_require(ibv_poll_cq(cq, 1, &wc) == 0, "an empty queue");
  return (now_ns() - begin) / POLLS;
}

/* Completions come by themselves: the last one is in memory when its bytes are, and a little. */
static void await_batch(volatile uint64_t* last, uint64_t value) {
  while (*last != value) usleep(100);
  usleep(2000);
}

static void measure_calls(struct bench_end* a, struct bench_end* b) {
  struct ibv_qp* qp_a = bench_make_qp(a, BATCH + 1, BYTES);
  struct ibv_qp* qp_b = bench_make_qp(b, BATCH + 1, BYTES);
  bench_connect(a, qp_a, b, qp_b);
  uint64_t* memory = aligned_alloc(4096, 4096);
  bench_require(memory != NULL, "memory");
  memset(memory, 0, 4096);
  struct ibv_mr* mr =
      ibv_reg_mr(b->pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(mr != NULL, "ibv_reg_mr");
  const struct target target = {(uintptr_t)memory, mr->rkey};
  double post[BATCHES], poll[BATCHES], empty[BATCHES];
  for (uint64_t i = 0; i < BATCHES; ++i) {
    post[i] = post_batch(qp_a, &target);
    uint64_t mark = i + 1;
    struct ibv_sge sge = {(uintptr_t)&mark, sizeof(mark), 0};
    struct ibv_send_wr request = {.sg_list = &sge,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    request.wr.rdma.remote_addr = target.address + 2048;
    request.wr.rdma.rkey = target.rkey;
    struct ibv_send_wr* bad;
    bench_require(!ibv_post_send(qp_a, &request, &bad), "post_send");
    await_batch((volatile uint64_t*)(memory + 256), mark);
    poll[i] = poll_batch(a->cq);
    struct ibv_wc wc;
    while (ibv_poll_cq(a->cq, 1, &wc) == 0) usleep(100);
    empty[i] = poll_empty(a->cq);
  }
  report("post_send_inline_64_ns", post, BATCHES);
  report("poll_one_ns", poll, BATCHES);
  report("poll_empty_ns", empty, BATCHES);
}

static void measure_pairs(struct bench_end* a, struct bench_end* b) {
  double each[PAIRS];
  for (int i = 0; i < PAIRS; ++i) {
    const double begin = now_ns();
    struct ibv_qp* qp_a = bench_make_qp(a, 16, 0);
    struct ibv_qp* qp_b = bench_make_qp(b, 16, 0);
    bench_connect(a, qp_a, b, qp_b);
    each[i] = (now_ns() - begin) / 2000;
    bench_require(!ibv_destroy_qp(qp_a) && !ibv_destroy_qp(qp_b), "ibv_destroy_qp");
  }
  report("qp_create_to_rts_us", each, PAIRS);
}

int main(int argc, char** argv) {
  setenv("UROCE_YIELD", "0", 1);
  struct bench_end a, b;
  const int has_gids = argc == 3;
  bench_open(&a, "uroce0", has_gids ? (uint32_t)atoi(argv[1]) : 1, 4096);
  bench_open(&b, "uroce1", has_gids ? (uint32_t)atoi(argv[2]) : 1, 4096);
  measure_calls(&a, &b);
  measure_pairs(&a, &b);
  return 0;
}
