/* SPDX-License-Identifier: Apache-2.0
 * What a program gets while another one floods the daemon: WRITEs of 4 KB, one at a time and each
 * checked in the target's memory, and a command now and then beside them. Prints one line of JSON.
 * usage: under_flood [-x GID_INDEX] [-y GID_INDEX] [-t MILLISECONDS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs_pair.h"

enum { kDepth = 16, kBytes = 4096, kMostSamples = 1 << 21, kCommandPauseNs = 5000000 };

struct samples {
  uint32_t* ns;
  uint32_t count;
};

static uint64_t end_ns;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void add(struct samples* samples, uint64_t begin_ns) {
  const uint64_t taken_ns = now_ns() - begin_ns;
  if (samples->count == kMostSamples) return;
  samples->ns[samples->count++] = taken_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)taken_ns;
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a;
  const uint32_t y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static void print(const char* name, struct samples* samples) {
  bench_require(samples->count > 0, name);
  qsort(samples->ns, samples->count, sizeof(*samples->ns), compare);
  printf("\"%s\": {\"count\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f}", name,
         samples->count, samples->ns[samples->count / 2] / 1e3,
         samples->ns[samples->count * 99ull / 100] / 1e3, samples->ns[samples->count - 1] / 1e3);
}

static void* command(void* argument) {
  const struct bench_end* end = argument;
  static struct samples samples;
  samples.ns = calloc(kMostSamples, sizeof(*samples.ns));
  bench_require(samples.ns != NULL, "memory");
  while (now_ns() < end_ns) {
    const uint64_t begin_ns = now_ns();
    struct ibv_pd* pd = ibv_alloc_pd(end->context);
    bench_require(pd != NULL && !ibv_dealloc_pd(pd), "a protection domain");
    add(&samples, begin_ns);
    nanosleep(&(struct timespec){.tv_nsec = kCommandPauseNs}, NULL);
  }
  return &samples;
}

static void write_once(const struct bench_end* end, struct ibv_qp* qp, const struct ibv_mr* source,
                       const struct ibv_mr* target, uint64_t value) {
  memcpy((uint8_t*)source->addr + kBytes - sizeof(value), &value, sizeof(value));
  struct ibv_sge sge = {(uintptr_t)source->addr, kBytes, source->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = (uintptr_t)target->addr;
  wr.wr.rdma.rkey = target->rkey;
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) continue;
  bench_require(count == 1, "ibv_poll_cq");
  bench_require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
  bench_require(!memcmp(source->addr, target->addr, kBytes), "the bytes that were sent");
}

static struct ibv_mr* make_memory(const struct bench_end* end) {
  void* memory = aligned_alloc(kBytes, kBytes);
  bench_require(memory != NULL, "memory");
  memset(memory, 0, kBytes);
  struct ibv_mr* mr =
      ibv_reg_mr(end->pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(mr != NULL, "ibv_reg_mr");
  return mr;
}

int main(int argc, char** argv) {
  uint32_t gids[2] = {1, 1};
  uint64_t duration_ms = 2000;
  for (int option; (option = getopt(argc, argv, "x:y:t:")) != -1;) {
    if (option == '?') return 2;
    const uint32_t value = (uint32_t)strtoul(optarg, NULL, 0);
    if (option == 't') duration_ms = value;
    if (option != 't') gids[option - 'x'] = value;
  }
  struct bench_end a = {0};
  struct bench_end b = {0};
  bench_open(&a, "uroce0", gids[0], kDepth);
  bench_open(&b, "uroce1", gids[1], kDepth);
  struct ibv_qp* qp = bench_make_qp(&a, kDepth, 0);
  bench_connect(&a, qp, &b, bench_make_qp(&b, kDepth, 0));
  struct ibv_mr* source = make_memory(&a);
  struct ibv_mr* target = make_memory(&b);
  struct samples writes = {.ns = calloc(kMostSamples, sizeof(uint32_t))};
  bench_require(writes.ns != NULL, "memory");
  end_ns = now_ns() + duration_ms * 1000000;
  pthread_t thread;
  bench_require(!pthread_create(&thread, NULL, command, &a), "pthread_create");
  for (uint64_t value = 1; now_ns() < end_ns; ++value) {
    const uint64_t begin_ns = now_ns();
    write_once(&a, qp, source, target, value);
    add(&writes, begin_ns);
  }
  void* commands = NULL;
  pthread_join(thread, &commands);
  printf("{");
  print("writes", &writes);
  printf(", ");
  print("commands", commands);
  printf("}\n");
  return 0;
}
