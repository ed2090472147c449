/* SPDX-License-Identifier: Apache-2.0
 * One-way latency of an 8 byte WRITE: from before ibv_post_send to the moment when the same thread
 * sees the value in the target's memory. One clock, one thread; the daemon's worker has the other
 * core. usage: verbs_latency [-x GID_INDEX] [-y GID_INDEX] [-n WRITES] [-c CORE] */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs_pair.h"

#define DEPTH 128
#define SIGNAL_EVERY 32
#define WARM_UP 20000

static void pause_loop(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield" ::: "memory");
#endif
}

struct options {
  uint32_t gid_a;
  uint32_t gid_b;
  uint32_t writes;
  int core;
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a;
  const uint64_t y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  bench_require(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

static void take_completions(struct ibv_cq* cq, uint32_t wanted) {
  struct ibv_wc wc;
  while (wanted > 0) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    bench_require(count >= 0, "ibv_poll_cq");
    if (count == 0) continue;
    bench_require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
    --wanted;
  }
}

/* One write of `value`; returns the nanoseconds until it is seen. */
static uint64_t write_once(struct ibv_qp* qp, const struct ibv_mr* target, uint64_t value) {
  volatile uint64_t* seen = target->addr;
  struct ibv_sge sge = {(uintptr_t)&value, sizeof(value), 0};
  struct ibv_send_wr request = {.wr_id = value,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_INLINE};
  if (value % SIGNAL_EVERY == 0) request.send_flags |= IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = (uintptr_t)target->addr;
  request.wr.rdma.rkey = target->rkey;
  struct ibv_send_wr* bad = NULL;
  const uint64_t begin = now_ns();
  bench_require(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
  while (*seen != value) pause_loop();
  return now_ns() - begin;
}

static void parse(int argc, char** argv, struct options* options) {
  for (int option; (option = getopt(argc, argv, "x:y:n:c:")) != -1;) {
    const uint32_t value = option == '?' ? 0 : (uint32_t)strtoul(optarg, NULL, 0);
    switch (option) {
      case 'x':
        options->gid_a = value;
        break;
      case 'y':
        options->gid_b = value;
        break;
      case 'n':
        options->writes = value;
        break;
      case 'c':
        options->core = (int)value;
        break;
      default:
        exit(2);
    }
  }
}

static void report(uint64_t* samples, uint32_t count) {
  qsort(samples, count, sizeof(*samples), compare);
  printf("%u writes: median %lu ns, p99 %lu ns, p99.9 %lu ns, least %lu ns, most %lu ns\n", count,
         samples[count / 2], samples[count / 100 * 99], samples[count / 1000 * 999], samples[0],
         samples[count - 1]);
}

int main(int argc, char** argv) {
  struct options options = {.gid_a = 1, .gid_b = 1, .writes = 200000, .core = 0};
  parse(argc, argv, &options);
  bench_require(options.writes >= 1000, "-n of at least 1000");
  pin(options.core);
  struct bench_end a = {0};
  struct bench_end b = {0};
  bench_open(&a, "uroce0", options.gid_a, DEPTH);
  bench_open(&b, "uroce1", options.gid_b, DEPTH);
  struct ibv_qp* qp_a = bench_make_qp(&a, DEPTH, 8);
  struct ibv_qp* qp_b = bench_make_qp(&b, DEPTH, 8);
  bench_connect(&a, qp_a, &b, qp_b);
  void* memory = aligned_alloc(4096, 4096);
  bench_require(memory != NULL, "memory");
  memset(memory, 0, 4096);
  struct ibv_mr* target =
      ibv_reg_mr(b.pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(target != NULL, "ibv_reg_mr");
  uint64_t* samples = calloc(options.writes, sizeof(*samples));
  bench_require(samples != NULL, "memory");
  for (uint64_t value = 1; value <= WARM_UP + (uint64_t)options.writes; ++value) {
    const uint64_t taken_ns = write_once(qp_a, target, value);
    if (value > WARM_UP) samples[value - WARM_UP - 1] = taken_ns;
    /* The completion of a signaled write is taken behind the next ones: not on the measured way. */
    if (value % SIGNAL_EVERY == SIGNAL_EVERY / 2 && value > SIGNAL_EVERY) {
      take_completions(a.cq, 1);
    }
  }
  report(samples, options.writes);
  return 0;
}
