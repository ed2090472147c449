/* SPDX-License-Identifier: Apache-2.0
 * Ends objects while requests use them: in each round a queue pair writes to, reads from and adds
 * to memory of its peer, until a region, a queue or one of the queue pairs ends at a random time.
 *
 * usage: ended_in_use GID_INDEX GID_INDEX SEED ROUNDS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/programs/verbs_pair.h"

enum {
  kLanes = 3,
  kDepth = 16,
  kBytes = 16 << 10,
  kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
            IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
};

static struct bench_end ends[2]; /* Each lane has its own queues of both. */
static unsigned rounds;
static unsigned first_seed;

/* One lane's objects of this round. Those that a round has ended early are null. */
struct lane {
  struct bench_end ends[2];
  struct ibv_qp* qps[2];
  struct ibv_mr* mrs[2];
  uint8_t* memory[2];
  atomic_int is_over;
  unsigned random;
};

static unsigned below(struct lane* lane, unsigned limit) {
  return (unsigned)rand_r(&lane->random) % limit;
}

static void make(struct lane* lane) {
  for (int i = 0; i < 2; ++i) {
    lane->ends[i] = ends[i];
    lane->ends[i].cq = ibv_create_cq(ends[i].context, 2 * kDepth, NULL, NULL, 0);
    bench_require(lane->ends[i].cq != NULL, "ibv_create_cq");
    lane->memory[i] = aligned_alloc(4096, kBytes);
    bench_require(lane->memory[i] != NULL, "memory");
    memset(lane->memory[i], 1, kBytes);
    lane->mrs[i] = ibv_reg_mr(ends[i].pd, lane->memory[i], kBytes, kAccess);
    bench_require(lane->mrs[i] != NULL, "ibv_reg_mr");
    lane->qps[i] = bench_make_qp(&lane->ends[i], kDepth, 0);
  }
  bench_connect(&lane->ends[0], lane->qps[0], &lane->ends[1], lane->qps[1]);
  struct ibv_qp_attr attributes = {.qp_access_flags = kAccess & ~IBV_ACCESS_MW_BIND};
  bench_require(!ibv_modify_qp(lane->qps[1], &attributes, IBV_QP_ACCESS_FLAGS), "access");
}

static void unmake(struct lane* lane) {
  for (int i = 0; i < 2; ++i) {
    if (lane->qps[i]) bench_require(!ibv_destroy_qp(lane->qps[i]), "ibv_destroy_qp");
    if (lane->mrs[i]) bench_require(!ibv_dereg_mr(lane->mrs[i]), "ibv_dereg_mr");
    bench_require(!ibv_destroy_cq(lane->ends[i].cq), "ibv_destroy_cq");
    free(lane->memory[i]);
  }
}

static void set_state(struct ibv_qp* qp, enum ibv_qp_state state) {
  struct ibv_qp_attr attributes = {.qp_state = state};
  bench_require(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE), "ibv_modify_qp");
}

static void end_one(struct lane* lane) {
  const unsigned side = below(lane, 2);
  switch (below(lane, 6)) {
    case 0:
    case 1:
      bench_require(!ibv_dereg_mr(lane->mrs[side]), "ibv_dereg_mr in use");
      lane->mrs[side] = NULL;
      return;
    case 2:
      bench_require(!ibv_destroy_qp(lane->qps[1]), "ibv_destroy_qp in use");
      lane->qps[1] = NULL;
      return;
    case 3:
      set_state(lane->qps[side], IBV_QPS_ERR);
      return;
    case 4:
      set_state(lane->qps[1], IBV_QPS_RESET);
      return;
    default:
      bench_require(!ibv_resize_cq(lane->ends[side].cq, 4 * kDepth), "ibv_resize_cq in use");
      return;
  }
}

/* Ends something after up to 4 ms, and the round somewhat later. */
static void* end_in_use(void* argument) {
  struct lane* lane = argument;
  nanosleep(&(struct timespec){.tv_nsec = below(lane, 4000000)}, NULL);
  end_one(lane);
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  atomic_store(&lane->is_over, 1);
  return NULL;
}

static void post(struct lane* lane, uint64_t target, uint32_t rkey, uint32_t lkey, unsigned count) {
  static const enum ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                IBV_WR_ATOMIC_FETCH_AND_ADD};
  const enum ibv_wr_opcode opcode = kOpcodes[count % 3];
  const uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : kBytes;
  struct ibv_sge sge = {(uintptr_t)lane->memory[0], length, lkey};
  struct ibv_send_wr request = {
      .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = target;
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = target;
    request.wr.rdma.rkey = rkey;
  }
  struct ibv_send_wr* bad = NULL;
  ibv_post_send(lane->qps[0], &request, &bad); /* Refused when the queue is full. */
}

static void* run(void* argument) {
  struct lane lane = {.random = first_seed * kLanes + (unsigned)(uintptr_t)argument};
  uintptr_t done = 0; /* Requests that were right. */
  for (unsigned round = 0; round < rounds; ++round) {
    make(&lane);
    const uint32_t lkey = lane.mrs[0]->lkey, rkey = lane.mrs[1]->rkey;
    const uint64_t target = (uintptr_t)lane.memory[1];
    pthread_t ender;
    atomic_store(&lane.is_over, 0);
    bench_require(!pthread_create(&ender, NULL, end_in_use, &lane), "pthread_create");
    for (unsigned count = 0; !atomic_load(&lane.is_over); ++count) {
      struct ibv_wc completions[kDepth];
      post(&lane, target, rkey, lkey, count);
      const int count_done = ibv_poll_cq(lane.ends[0].cq, kDepth, completions);
      for (int i = 0; i < count_done; ++i) done += completions[i].status == IBV_WC_SUCCESS;
    }
    pthread_join(ender, NULL);
    unmake(&lane);
  }
  return (void*)done;
}

int main(int argc, char** argv) {
  bench_require(argc == 5, "usage: ended_in_use GID_INDEX GID_INDEX SEED ROUNDS");
  for (int i = 0; i < 2; ++i) {
    bench_open(&ends[i], i ? "uroce1" : "uroce0", (uint32_t)atoi(argv[1 + i]), 1);
  }
  first_seed = (unsigned)atoi(argv[3]);
  rounds = (unsigned)atoi(argv[4]);
  pthread_t lanes[kLanes];
  for (uintptr_t i = 0; i < kLanes; ++i) {
    bench_require(!pthread_create(&lanes[i], NULL, run, (void*)i), "pthread_create");
  }
  uintptr_t done = 0;
  for (int i = 0; i < kLanes; ++i) {
    void* its = NULL;
    pthread_join(lanes[i], &its);
    done += (uintptr_t)its;
  }
  printf("%u rounds, %lu requests\n", kLanes * rounds, done);
  return 0;
}
