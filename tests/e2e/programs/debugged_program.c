/* SPDX-License-Identifier: Apache-2.0
 * What a program under development does: it registers memory of the heap, transfers, forks while
 * the memory is registered, transfers again from a second thread, and gives all back. Both ends are
 * in this program; under a sanitizer or a debugger it does the same.
 *
 * usage: debugged_program GID_INDEX_OF_UROCE0 GID_INDEX_OF_UROCE1 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kBytes = 256 * 1024, kDepth = 16 };

struct side {
  struct bench_end end;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char* bytes;
};

static struct side from, to;

static void open_side(struct side* side, const char* device, const char* gid_index) {
  bench_open(&side->end, device, (uint32_t)atoi(gid_index), kDepth);
  side->qp = bench_make_qp(&side->end, kDepth, 0);
  side->bytes = calloc(1, kBytes);
  bench_require(side->bytes != NULL, "calloc");
  side->mr = ibv_reg_mr(side->end.pd, side->bytes, kBytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(side->mr != NULL, "ibv_reg_mr");
}

static void close_side(struct side* side) {
  bench_require(!ibv_destroy_qp(side->qp), "ibv_destroy_qp");
  bench_require(!ibv_dereg_mr(side->mr), "ibv_dereg_mr");
  bench_require(!ibv_destroy_cq(side->end.cq), "ibv_destroy_cq");
  bench_require(!ibv_dealloc_pd(side->end.pd), "ibv_dealloc_pd");
  bench_require(!ibv_close_device(side->end.context), "ibv_close_device");
  free(side->bytes);
}

static void await_completion(void) {
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(from.end.cq, 1, &wc)) == 0) sched_yield();
  bench_require(got == 1 && wc.status == IBV_WC_SUCCESS, "a completion of success");
}

static void transfer(void) {
  struct ibv_sge sge = {(uintptr_t)from.bytes, kBytes, from.mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)to.bytes, to.mr->rkey}};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(from.qp, &wr, &bad), "ibv_post_send");
  await_completion();
  bench_require(!memcmp(from.bytes, to.bytes, kBytes), "the bytes on the other side");
}

/* The child writes to memory that is registered, and does no verbs. */
static void fork_beside(void) {
  const pid_t child = fork();
  bench_require(child >= 0, "fork");
  if (child == 0) {
    char* own = malloc(kBytes);
    memset(own, 1, kBytes);
    free(own);
    _exit(0);
  }
  memset(from.bytes, 2, kBytes);
  int status = 0;
  bench_require(waitpid(child, &status, 0) == child && status == 0, "the child's success");
}

static void* second_thread(void* unused) {
  (void)unused;
  memset(from.bytes, 3, kBytes);
  transfer();
  return NULL;
}

int main(int argc, char** argv) {
  bench_require(argc == 3, "two GID indices");
  open_side(&from, "uroce0", argv[1]);
  open_side(&to, "uroce1", argv[2]);
  bench_connect(&from.end, from.qp, &to.end, to.qp);
  memset(from.bytes, 1, kBytes);
  transfer();
  fork_beside();
  transfer();
  pthread_t thread;
  bench_require(!pthread_create(&thread, NULL, second_thread, NULL), "pthread_create");
  bench_require(!pthread_join(thread, NULL), "pthread_join");
  close_side(&from);
  close_side(&to);
  puts("all transferred");
  return 0;
}
