/* SPDX-License-Identifier: Apache-2.0
 * Many queue pairs on one completion queue at either end, with both ends in this program: every
 * completion once, in order for each queue pair, while the queues are resized up and down. The
 * receiving side sleeps on its channel. With a daemon of several workers the queue pairs of each
 * queue live on all of them.
 *
 * usage: shared_cq [-x GID_INDEX] [-y GID_INDEX] [-n QUEUE_PAIRS] [-m MESSAGES] */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kDepth = 16, kMaxPairs = 64, kMessageBytes = 64 };

/* One end of all connections. */
struct side {
  struct bench_end end;
  struct ibv_comp_channel* channel;
  struct ibv_mr* mr;
  struct ibv_qp* qps[kMaxPairs];
  uint32_t next[kMaxPairs]; /* Messages of each queue pair that are complete. */
  uint64_t completed;
  uint32_t resized;
};

static char buffer[kMessageBytes];
static uint32_t pairs = 8;
static uint32_t messages = 2000;

static uint64_t wanted(void) { return (uint64_t)pairs * messages; }

static void post_receive(struct side* side, uint32_t pair) {
  struct ibv_recv_wr wr = {.wr_id = pair};
  struct ibv_recv_wr* bad = NULL;
  bench_require(!ibv_post_recv(side->qps[pair], &wr, &bad), "ibv_post_recv");
}

/* The id says which queue pair and which message. */
static void post_send(struct side* side, uint32_t pair, uint32_t number) {
  struct ibv_sge sge = {(uintptr_t)buffer, 0, side->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = (uint64_t)number << 32 | pair,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND_WITH_IMM,
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htonl(number)};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(side->qps[pair], &wr, &bad), "ibv_post_send");
}

static void make_side(struct side* side, const char* device, uint32_t gid_index) {
  bench_open(&side->end, device, gid_index, 1);
  bench_require(!ibv_destroy_cq(side->end.cq), "ibv_destroy_cq");
  side->channel = ibv_create_comp_channel(side->end.context);
  bench_require(side->channel != NULL, "ibv_create_comp_channel");
  side->end.cq = ibv_create_cq(side->end.context, (int)(pairs * kDepth), NULL, side->channel, 0);
  bench_require(side->end.cq != NULL, "ibv_create_cq");
  side->mr = ibv_reg_mr(side->end.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
  bench_require(side->mr != NULL, "ibv_reg_mr");
  for (uint32_t i = 0; i < pairs; ++i) side->qps[i] = bench_make_qp(&side->end, kDepth, 0);
}

/* Twice as much room as is ever used, and half of that: never less than may wait. */
static void resize(struct side* side) {
  const int cqe = (int)(pairs * kDepth) * (side->resized % 2 == 0 ? 2 : 1);
  bench_require(!ibv_resize_cq(side->end.cq, cqe), "ibv_resize_cq");
  bench_require(side->end.cq->cqe >= cqe, "cqe after ibv_resize_cq");
  ++side->resized;
}

static void check(struct side* side, const struct ibv_wc* wc, uint32_t pair, uint32_t number) {
  bench_require(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
  bench_require(pair < pairs && wc->qp_num == side->qps[pair]->qp_num, "whose completion it is");
  bench_require(number == side->next[pair], "each completion once and in order");
  ++side->next[pair];
  if (++side->completed % 500 == 0) resize(side);
}

static void* receive(void* argument) {
  struct side* side = argument;
  while (side->completed < wanted()) {
    struct ibv_wc wc;
    const int count = ibv_poll_cq(side->end.cq, 1, &wc);
    bench_require(count >= 0, "ibv_poll_cq");
    if (count == 1) {
      check(side, &wc, (uint32_t)wc.wr_id, ntohl(wc.imm_data));
      post_receive(side, (uint32_t)wc.wr_id);
      continue;
    }
    bench_require(!ibv_req_notify_cq(side->end.cq, 0), "ibv_req_notify_cq");
    /* What came before the arming makes no event. */
    if (ibv_poll_cq(side->end.cq, 1, &wc) == 1) {
      check(side, &wc, (uint32_t)wc.wr_id, ntohl(wc.imm_data));
      post_receive(side, (uint32_t)wc.wr_id);
      continue;
    }
    struct ibv_cq* cq = NULL;
    void* context = NULL;
    bench_require(!ibv_get_cq_event(side->channel, &cq, &context), "ibv_get_cq_event");
    bench_require(cq == side->end.cq, "whose event it is");
    ibv_ack_cq_events(cq, 1);
  }
  return NULL;
}

static void send_all(struct side* side) {
  for (uint32_t i = 0; i < pairs; ++i) {
    for (uint32_t number = 0; number < kDepth && number < messages; ++number) {
      post_send(side, i, number);
    }
  }
  while (side->completed < wanted()) {
    struct ibv_wc wcs[kDepth];
    const int count = ibv_poll_cq(side->end.cq, kDepth, wcs);
    bench_require(count >= 0, "ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      const uint32_t pair = (uint32_t)wcs[i].wr_id;
      const uint32_t number = (uint32_t)(wcs[i].wr_id >> 32);
      check(side, &wcs[i], pair, number);
      if (number + kDepth < messages) post_send(side, pair, number + kDepth);
    }
  }
}

static void end_side(struct side* side) {
  struct ibv_wc wc;
  bench_require(ibv_poll_cq(side->end.cq, 1, &wc) == 0, "no completion too many");
  for (uint32_t i = 0; i < pairs; ++i) bench_require(!ibv_destroy_qp(side->qps[i]), "destroy_qp");
  bench_require(!ibv_destroy_cq(side->end.cq), "ibv_destroy_cq");
  bench_require(!ibv_destroy_comp_channel(side->channel), "ibv_destroy_comp_channel");
}

int main(int argc, char** argv) {
  uint32_t gid_a = 1;
  uint32_t gid_b = 1;
  for (int option; (option = getopt(argc, argv, "x:y:n:m:")) != -1;) {
    if (option == '?') return 2;
    const uint32_t value = (uint32_t)strtoul(optarg, NULL, 0);
    *(option == 'x' ? &gid_a : option == 'y' ? &gid_b : option == 'n' ? &pairs : &messages) = value;
  }
  if (pairs == 0 || pairs > kMaxPairs) return 2;
  static struct side sender;
  static struct side receiver;
  make_side(&sender, "uroce0", gid_a);
  make_side(&receiver, "uroce1", gid_b);
  for (uint32_t i = 0; i < pairs; ++i) {
    bench_connect(&sender.end, sender.qps[i], &receiver.end, receiver.qps[i]);
    for (int receives = 0; receives < kDepth; ++receives) post_receive(&receiver, i);
  }
  pthread_t thread;
  bench_require(!pthread_create(&thread, NULL, receive, &receiver), "pthread_create");
  send_all(&sender);
  pthread_join(thread, NULL);
  printf("%llu completions at either end, %u resizes\n", (unsigned long long)sender.completed,
         sender.resized + receiver.resized);
  end_side(&sender);
  end_side(&receiver);
  return 0;
}
