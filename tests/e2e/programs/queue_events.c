/* SPDX-License-Identifier: Apache-2.0
 * What queues tell of themselves, by ibv_get_async_event: a shared receive queue below its limit,
 * a send queue that has drained, and a queue pair that takes no more of a shared receive queue.
 *
 * usage: queue_events [-x GID_INDEX] [-y GID_INDEX] */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kDepth = 16, kDeadlineMs = 60000 };

static struct bench_end sender;
static struct bench_end receiver;

static void post(struct ibv_srq* srq, uint64_t wr_id) {
  struct ibv_recv_wr wr = {.wr_id = wr_id};
  struct ibv_recv_wr* bad = NULL;
  bench_require(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static void send(struct ibv_qp* qp) {
  struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* The next completion, which comes within the deadline. */
static struct ibv_wc take(struct ibv_cq* cq) {
  struct ibv_wc wc;
  for (int waited = 0; waited < kDeadlineMs;) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    bench_require(count >= 0, "ibv_poll_cq");
    if (count == 1) return wc;
    usleep(1000);
    ++waited;
  }
  bench_require(0, "a completion");
  return wc;
}

static int has_event(const struct bench_end* end, int timeout_ms) {
  struct pollfd waits = {.fd = end->context->async_fd, .events = POLLIN};
  return poll(&waits, 1, timeout_ms) == 1;
}

static struct ibv_async_event next_event(const struct bench_end* end, enum ibv_event_type type) {
  struct ibv_async_event event;
  bench_require(has_event(end, kDeadlineMs), ibv_event_type_str(type));
  bench_require(!ibv_get_async_event(end->context, &event), "ibv_get_async_event");
  bench_require(event.event_type == type, ibv_event_type_str(event.event_type));
  ibv_ack_async_event(&event);
  return event;
}

static void modify(struct ibv_qp* qp, enum ibv_qp_state state, int mask) {
  struct ibv_qp_attr attributes = {.qp_state = state, .en_sqd_async_notify = 1};
  bench_require(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | mask), "ibv_modify_qp");
}

static void send_and_check(struct ibv_qp* qp, struct ibv_qp* to, uint64_t wr_id) {
  send(qp);
  const struct ibv_wc wc = take(receiver.cq);
  bench_require(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id, "the oldest entry");
  bench_require(wc.qp_num == to->qp_num, "the queue pair that it came to");
  bench_require(take(sender.cq).status == IBV_WC_SUCCESS, "a send");
}

/* Entries 1 to 4 are posted. */
static void check_limit(struct ibv_srq* srq, struct ibv_qp* from[2], struct ibv_qp* to[2]) {
  struct ibv_srq_attr attributes = {.srq_limit = 3};
  bench_require(!ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT), "to arm the limit");
  send_and_check(from[0], to[0], 1);
  bench_require(!has_event(&receiver, 0), "no event while the limit holds");
  send_and_check(from[1], to[1], 2);
  bench_require(next_event(&receiver, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq == srq,
                "whose limit it is");
  bench_require(!ibv_query_srq(srq, &attributes), "ibv_query_srq");
  bench_require(attributes.srq_limit == 0, "a limit that was reached is disarmed");
}

/* Entries 3 and 4 wait. */
static void check_resize(struct ibv_srq* srq, struct ibv_qp* from[2], struct ibv_qp* to[2]) {
  struct ibv_srq_attr attributes = {.max_wr = 4 * kDepth};
  bench_require(!ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR), "to resize");
  for (uint64_t id = 5; id <= 4 * kDepth; ++id) post(srq, id);
  for (uint64_t id = 3; id <= 8; ++id) send_and_check(from[id % 2], to[id % 2], id);
  attributes.max_wr = kDepth;
  bench_require(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR) == EINVAL,
                "more waits than the new size holds");
}

static void check_drain(struct ibv_qp* qp) {
  modify(qp, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  bench_require(next_event(&sender, IBV_EVENT_SQ_DRAINED).element.qp == qp, "which has drained");
  modify(qp, IBV_QPS_RTS, 0);
}

static void check_end(struct ibv_qp* qp) {
  modify(qp, IBV_QPS_ERR, 0);
  bench_require(next_event(&receiver, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp == qp,
                "which takes no more");
}

static struct ibv_qp* make_receiver(struct ibv_srq* srq) {
  struct ibv_qp_init_attr attributes = {.send_cq = receiver.cq,
                                        .recv_cq = receiver.cq,
                                        .srq = srq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 1, .max_send_sge = 1}};
  struct ibv_qp* qp = ibv_create_qp(receiver.pd, &attributes);
  bench_require(qp != NULL, "ibv_create_qp");
  bench_require(attributes.cap.max_recv_wr == 0, "no private receive queue");
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  bench_require(
      !ibv_modify_qp(qp, &init,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      "to INIT");
  return qp;
}

static void check_all(struct ibv_srq* srq) {
  struct ibv_qp* from[2];
  struct ibv_qp* to[2];
  for (int i = 0; i < 2; ++i) {
    from[i] = bench_make_qp(&sender, kDepth, 0);
    to[i] = make_receiver(srq);
    bench_connect(&sender, from[i], &receiver, to[i]);
  }
  for (uint64_t id = 1; id <= 4; ++id) post(srq, id);
  check_limit(srq, from, to);
  check_resize(srq, from, to);
  check_drain(from[0]);
  check_end(to[0]);
  bench_require(ibv_destroy_srq(srq) == EBUSY, "busy while queue pairs take from it");
  send_and_check(from[1], to[1], 9);
  for (int i = 0; i < 2; ++i) {
    bench_require(!ibv_destroy_qp(from[i]) && !ibv_destroy_qp(to[i]), "ibv_destroy_qp");
  }
}

int main(int argc, char** argv) {
  uint32_t gids[2] = {1, 1};
  for (int option; (option = getopt(argc, argv, "x:y:")) != -1;) {
    if (option == '?') return 2;
    gids[option - 'x'] = (uint32_t)strtoul(optarg, NULL, 0);
  }
  bench_open(&sender, "uroce0", gids[0], 4 * kDepth);
  bench_open(&receiver, "uroce1", gids[1], 4 * kDepth);
  struct ibv_srq_init_attr attributes = {.attr = {.max_wr = kDepth, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(receiver.pd, &attributes);
  bench_require(srq != NULL, "ibv_create_srq");
  check_all(srq);
  bench_require(!ibv_destroy_srq(srq), "ibv_destroy_srq");
  printf("every queue has told what it had to\n");
  return 0;
}
