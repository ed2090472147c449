/* SPDX-License-Identifier: Apache-2.0
 * Queues and channels that their program does not read. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/programs/faulty_programs/cases.h"
#include "tests/e2e/programs/faulty_programs/stuck_file.h"

#define RECORD_BYTES 16 /* Of a completion channel. */
#define MOST_EVENTS 100000
#define SOON_S 1
#define RESETS 100
#define WRITES 16 /* Under way when it happens. */

static void expect_event(struct mu_pair* pair, enum ibv_event_type wanted) {
  struct pollfd readable = {pair->a.context->async_fd, POLLIN, 0};
  struct ibv_async_event event;
  if (poll(&readable, 1, (int)pair->options.deadline_s * 1000) != 1 ||
      ibv_get_async_event(pair->a.context, &event)) {
    vc_die(&pair->a, "no event: %s", ibv_event_type_str(wanted));
  }
  if (event.event_type != wanted) {
    vc_die(&pair->a, "event: %s", ibv_event_type_str(event.event_type));
  }
  ibv_ack_async_event(&event);
}

static void destroy_queue_pair(struct vc_side* side) {
  if (ibv_destroy_qp(side->qp)) vc_die(side, "ibv_destroy_qp failed");
}

/* With `cq` for its sends. `srq` may be NULL. */
static void make_queue_pair(struct vc_side* side, struct ibv_cq* cq, struct ibv_srq* srq) {
  struct ibv_qp_init_attr attributes = {.send_cq = cq,
                                        .recv_cq = side->recv_cq,
                                        .srq = srq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 32, .max_send_sge = 1}};
  side->qp = cq ? ibv_create_qp(side->pd, &attributes) : NULL;
  if (!side->qp) vc_die(side, "ibv_create_qp: %s", strerror(errno));
  side->info.qpn = side->qp->qp_num;
}

static void replace_queue_pair(struct vc_side* side, struct ibv_cq* cq) {
  destroy_queue_pair(side);
  make_queue_pair(side, cq, NULL);
}

/* Its queue pairs go to error, and the program is told; no other program is concerned. */
static void never_polls(struct mu_pair* pair) {
  struct ibv_cq* cq = ibv_create_cq(pair->a.context, 4, NULL, NULL, 0);
  replace_queue_pair(&pair->a, cq);
  replace_queue_pair(&pair->b, pair->b.send_cq);
  mu_bring_up(pair);
  for (int i = 0; i <= cq->cqe; ++i) mu_post_write(pair);
  expect_event(pair, IBV_EVENT_CQ_ERR);
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  if (ibv_query_qp(pair->a.qp, &attributes, IBV_QP_STATE, &init) ||
      attributes.qp_state != IBV_QPS_ERR) {
    vc_die(&pair->a, "the queue pair is in state %d", (int)attributes.qp_state);
  }
}

/* Bytes that wait on the channel: RECORD_BYTES for each event. */
static int waiting_bytes(const struct mu_pair* pair) {
  int bytes = 0;
  if (ioctl(pair->a.channel->fd, FIONREAD, &bytes)) vc_die(&pair->a, "FIONREAD");
  return bytes;
}

/* Has the event of one completion made. */
static void raise_event(struct mu_pair* pair) {
  if (ibv_req_notify_cq(pair->a.send_cq, 0)) vc_die(&pair->a, "ibv_req_notify_cq failed");
  mu_post_write(pair);
  mu_await_completion(pair);
}

/* Whether so many bytes wait on the channel within SOON_S. */
static int come_soon(const struct mu_pair* pair, int bytes) {
  const time_t deadline = time(NULL) + SOON_S;
  while (waiting_bytes(pair) < bytes) {
    if (time(NULL) > deadline) return 0;
    sched_yield();
  }
  return 1;
}

/* Fills the channel, and makes one event more than it holds: returns how many. An arming before the
 * event of the one before is there may become one with it: each is awaited. */
static int fill_channel(struct mu_pair* pair) {
  for (int count = 1;; ++count) {
    raise_event(pair);
    if (!come_soon(pair, count * RECORD_BYTES)) return count;
    if (count == MOST_EVENTS) vc_die(&pair->a, "%d unread events", count);
  }
}

/* More events than the channel holds: the last one comes when there is room. */
static void never_reads_events(struct mu_pair* pair) {
  struct ibv_comp_channel* channel = pair->a.channel;
  const int count = fill_channel(pair);
  for (int i = 0; i < count; ++i) {
    struct pollfd readable = {channel->fd, POLLIN, 0};
    struct ibv_cq* cq = NULL;
    void* context = NULL;
    if (poll(&readable, 1, (int)pair->options.deadline_s * 1000) != 1 ||
        ibv_get_cq_event(channel, &cq, &context) || cq != pair->a.send_cq) {
      vc_die(&pair->a, "event %d of %d did not come", i, count);
    }
  }
  ibv_ack_cq_events(pair->a.send_cq, count);
}

/* Its shared receive queue binds it to the worker that has the fewest queue pairs now. */
static void make_bound_queue_pair(struct vc_side* side) {
  struct ibv_srq_init_attr attributes = {.attr = {.max_wr = 1, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(side->pd, &attributes);
  if (!srq) vc_die(side, "ibv_create_srq: %s", strerror(errno));
  make_queue_pair(side, side->send_cq, srq);
}

/* Resets b while packets for it are on their way, wherever they wait, and connects both again with
 * other PSNs: what was sent before must not count for the next life. Both are on the NIC of a, with
 * two workers on different ones. */
static void resets_while_its_peer_sends(struct mu_pair* pair) {
  struct vc_side* sides[] = {&pair->b, &pair->a};
  uint64_t random = pair->options.seed;
  pair->options.devices[1] = pair->options.devices[0];
  pair->options.gid_indices[1] = pair->options.gid_indices[0];
  destroy_queue_pair(&pair->b);
  vc_side_open(&pair->b, &pair->options, 1);
  for (int i = 0; i < 2; ++i) destroy_queue_pair(sides[i]);
  make_bound_queue_pair(&pair->a);
  make_bound_queue_pair(&pair->b);
  mu_bring_up(pair);
  for (int life = 0; life < RESETS; ++life) {
    for (int i = 0; i < WRITES; ++i) mu_post_write(pair);
    for (uint64_t i = vc_random(&random) % WRITES; i != 0; --i) (void)mu_await_completion(pair);
    for (int i = 0; i < 2; ++i) {
      struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};
      if (ibv_modify_qp(sides[i]->qp, &attributes, IBV_QP_STATE)) vc_die(sides[i], "to RESET");
      sides[i]->info.psn = (uint32_t)vc_random(&random) & 0xffffff;
    }
    mu_bring_up(pair);
    uint64_t* from = (uint64_t*)pair->a.source.bytes;
    volatile uint64_t* to = (volatile uint64_t*)pair->b.writable.bytes;
    *from = vc_random(&random);
    mu_post_write(pair);
    const struct ibv_wc wc = mu_await_completion(pair);
    if (wc.status != IBV_WC_SUCCESS) vc_die(&pair->a, "%s", ibv_wc_status_str(wc.status));
    if (*to != *from) vc_die(&pair->b, "life %d: what arrived is not what was sent", life);
    if (ibv_poll_cq(pair->a.send_cq, 1, &(struct ibv_wc){0})) vc_die(&pair->a, "one too many");
  }
}

static void ready(void) {
  printf("ready\n");
  fflush(stdout);
}

/* Who made the events may die with them. */
static void dies_with_a_full_channel(struct mu_pair* pair) {
  fill_channel(pair);
  ready();
  pause();
}

struct reader {
  int fd;
  void* to;
};

static void* read_record(void* argument) {
  const struct reader* reader = argument;
  const ssize_t got = read(reader->fd, reader->to, RECORD_BYTES);
  fprintf(stderr, "a read of its channel ended: %zd\n", got);
  return NULL;
}

/* A thread of it reads an event and never ends doing so; more events come. */
static void blocks_who_sends_its_events(struct mu_pair* pair) {
  static struct reader reader;
  reader = (struct reader){pair->a.channel->fd, mu_stuck_memory(pair, 4096)};
  raise_event(pair);
  pthread_t thread;
  if (pthread_create(&thread, NULL, read_record, &reader)) vc_die(&pair->a, "no thread");
  mu_await_waiters(pair);
  for (int i = 0; i < WRITES; ++i) raise_event(pair);
  ready();
  pause();
}

/* With UROCE_MR=copied: a copy of its memory never ends while it lives. */
static void blocks_who_reads_its_memory(struct mu_pair* pair) {
  void* page = mu_stuck_memory(pair, 4096);
  struct ibv_mr* mr = ibv_reg_mr(pair->a.pd, page, 4096, 0);
  if (!mr) vc_die(&pair->a, "no region: %s", strerror(errno));
  struct ibv_sge sge = {(uintptr_t)page, 4096, mr->lkey};
  struct ibv_send_wr request = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  request.wr.rdma.remote_addr = pair->a.peer.writable_addr;
  request.wr.rdma.rkey = pair->a.peer.writable_rkey;
  struct ibv_send_wr* bad = NULL;
  if (ibv_post_send(pair->a.qp, &request, &bad)) vc_die(&pair->a, "ibv_post_send failed");
  mu_await_waiters(pair);
  ready();
  ibv_dereg_mr(mr); /* Waits for the copy. */
  vc_die(&pair->a, "memory was given back though it is being read");
}

const struct mu_case mu_queue_cases[] = {
    {"never-polls", never_polls},
    {"never-reads-events", never_reads_events},
    {"resets-while-its-peer-sends", resets_while_its_peer_sends},
    {"dies-with-a-full-channel", dies_with_a_full_channel},
    {"blocks-who-sends-its-events", blocks_who_sends_its_events},
    {"blocks-who-reads-its-memory", blocks_who_reads_its_memory},
    {NULL, NULL},
};
