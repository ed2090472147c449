/* SPDX-License-Identifier: Apache-2.0
 * With UROCE_MR=copied: queue pairs are reset or end during a write to memory whose pages do
 * not come. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/programs/faulty_programs/cases.h"
#include "tests/e2e/programs/faulty_programs/stuck_file.h"

/* A program copies so many pieces itself. */
#define PIECES 3
#define PIECE_BYTES 256
#define STRIDE 1024

struct call {
  struct vc_side* side;
  int (*make)(struct vc_side* side);
  int is_due;
  int has_returned;
  int error;
};

static void* make_call(void* argument) {
  struct call* call = argument;
  while (!__atomic_load_n(&call->is_due, __ATOMIC_ACQUIRE)) sched_yield();
  call->error = call->make(call->side);
  __atomic_store_n(&call->has_returned, 1, __ATOMIC_RELEASE);
  return NULL;
}

static int to_reset(struct vc_side* side) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};
  return ibv_modify_qp(side->qp, &attributes, IBV_QP_STATE);
}

static int destroy(struct vc_side* side) { return ibv_destroy_qp(side->qp); }

static struct ibv_mr* make_region(struct vc_side* side, void* bytes) {
  struct ibv_mr* mr = ibv_reg_mr(side->pd, bytes, PIECES * STRIDE, IBV_ACCESS_LOCAL_WRITE);
  if (!mr) vc_die(side, "no region: %s", strerror(errno));
  return mr;
}

/* A message from `sent` of a to PIECES of `memory` of b. */
static void send_to(struct mu_pair* pair, uint8_t* sent, uint8_t* memory) {
  const struct ibv_mr* to = make_region(&pair->b, memory);
  struct ibv_sge pieces[PIECES];
  for (int i = 0; i < PIECES; ++i) {
    pieces[i] = (struct ibv_sge){(uintptr_t)memory + i * STRIDE, PIECE_BYTES, to->lkey};
  }
  struct ibv_recv_wr receive = {.sg_list = pieces, .num_sge = PIECES};
  if (vc_side_post_receive(&pair->b, &receive)) vc_die(&pair->b, "no receive");
  struct ibv_sge sge = {(uintptr_t)sent, PIECES * PIECE_BYTES, make_region(&pair->a, sent)->lkey};
  struct ibv_send_wr request = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  if (ibv_post_send(pair->a.qp, &request, &bad)) vc_die(&pair->a, "ibv_post_send failed");
}

/* A message of `a` waits in the memory of `b`, and `make` is called for b. It must return after
 * the copy, which the parent lets go on by SIGUSR1. Before that no mapping is made: a thread of the
 * daemon that waits for the page may hold the lock of the address space. */
static void call_over_a_copy(struct mu_pair* pair, int (*make)(struct vc_side* side)) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  struct call call = {.side = &pair->b, .make = make};
  pthread_t thread;
  if (pthread_create(&thread, NULL, make_call, &call)) vc_die(&pair->b, "no thread");
  printf("begins\n");
  fflush(stdout);
  static uint8_t sent[PIECES * STRIDE], ordinary[PIECES * STRIDE];
  memset(sent, 0x5a, sizeof(sent));
  uint8_t* late = mu_stuck_memory(pair, PIECES * STRIDE);
  send_to(pair, sent, ordinary);
  (void)mu_await_completion(pair); /* All is there that the next one needs. */
  send_to(pair, sent, late);
  mu_await_waiters(pair);
  __atomic_store_n(&call.is_due, 1, __ATOMIC_RELEASE);
  printf("ready\n");
  fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  if (__atomic_load_n(&call.has_returned, __ATOMIC_ACQUIRE)) {
    vc_die(&pair->b, "the call has returned before the copy");
  }
  sf_let_go();
  pthread_join(thread, NULL);
  if (call.error) vc_die(&pair->b, "the call: %s", strerror(call.error));
  for (int i = 0; i < PIECES; ++i) {
    const int is_there = memcmp(late + i * STRIDE, sent, PIECE_BYTES) == 0;
    if (!is_there) vc_die(&pair->b, "piece %d comes later", i);
  }
}

static void resets_over_a_copy(struct mu_pair* pair) {
  call_over_a_copy(pair, to_reset);
  if (to_reset(&pair->a)) vc_die(&pair->a, "to RESET");
  mu_bring_up(pair);
  mu_post_write(pair);
  const struct ibv_wc wc = mu_await_completion(pair);
  if (wc.status != IBV_WC_SUCCESS) vc_die(&pair->a, "%s", ibv_wc_status_str(wc.status));
}

static void ends_over_a_copy(struct mu_pair* pair) { call_over_a_copy(pair, destroy); }

const struct mu_case mu_copy_cases[] = {
    {"resets-over-a-copy", resets_over_a_copy},
    {"ends-over-a-copy", ends_over_a_copy},
    {NULL, NULL},
};
