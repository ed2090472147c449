/* SPDX-License-Identifier: Apache-2.0
 * Null regions (ibv_alloc_null_mr(3)) and moderation of events (ibv_modify_cq(3)). */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

enum { kBytes = 64, kDepth = 4, kDeadlineMs = 30000 };
static const uint64_t kNowhere = 0xdead00000000;

/* Two connected queue pairs: what comes from `a` lands where `to` says. */
struct link {
  struct bench_end* ends[2];
  struct ibv_qp* qps[2];
};

static struct link connect_ends(struct ca_bed* bed) {
  struct link link = {{&bed->a, &bed->b}, {NULL, NULL}};
  for (int i = 0; i < 2; ++i) link.qps[i] = bench_make_qp(link.ends[i], kDepth, 0);
  bench_connect(&bed->a, link.qps[0], &bed->b, link.qps[1]);
  return link;
}

static void await_success(struct ibv_cq* cq) {
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) continue;
  bench_require(count == 1 && wc.status == IBV_WC_SUCCESS, "a completion");
}

static void send_to(struct link* link, struct ibv_sge from, struct ibv_sge to) {
  struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1};
  struct ibv_recv_wr* bad_receive;
  bench_require(!ibv_post_recv(link->qps[1], &receive, &bad_receive), "ibv_post_recv");
  struct ibv_send_wr request = {
      .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad;
  bench_require(!ibv_post_send(link->qps[0], &request, &bad), "ibv_post_send");
}

static void send_and_wait(struct link* link, struct ibv_sge from, struct ibv_sge to) {
  send_to(link, from, to);
  for (int i = 0; i < 2; ++i) await_success(link->ends[i]->cq);
}

void ca_null_region(struct ca_bed* bed) {
  static uint8_t bytes[kBytes];
  static const uint8_t zeros[kBytes];
  struct link link = connect_ends(bed);
  struct ibv_mr* null_a = ibv_alloc_null_mr(bed->a.pd);
  struct ibv_mr* null_b = ibv_alloc_null_mr(bed->b.pd);
  struct ibv_mr* mr = ibv_reg_mr(bed->b.pd, bytes, kBytes, IBV_ACCESS_LOCAL_WRITE);
  bench_require(null_a && null_b && mr, "regions");
  bench_require(null_b->rkey == 0, "no peer reaches a null region");
  const struct ibv_sge nothing = {kNowhere, kBytes, null_a->lkey};
  memset(bytes, 0xaa, kBytes);
  send_and_wait(&link, nothing, (struct ibv_sge){(uintptr_t)bytes, kBytes, mr->lkey});
  bench_require(!memcmp(bytes, zeros, kBytes), "it reads as zeros");
  send_and_wait(&link, nothing, (struct ibv_sge){kNowhere, kBytes, null_b->lkey});
  bench_require(
      ibv_rereg_mr(null_b, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0 && errno == EINVAL,
      "it stays what it is");
  bench_require(ibv_dealloc_pd(bed->b.pd) == EBUSY, "it holds its domain");
  bench_require(!ibv_dereg_mr(null_a) && !ibv_dereg_mr(null_b) && !ibv_dereg_mr(mr), "dereg");
}

static void await_event(struct ibv_comp_channel* channel) {
  struct pollfd readable = {channel->fd, POLLIN, 0};
  bench_require(poll(&readable, 1, kDeadlineMs) == 1, "an event");
  struct ibv_cq* cq;
  void* context;
  bench_require(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
}

/* By the count, and by the end of the period. */
void ca_moderation(struct ca_bed* bed) {
  struct ibv_device_attr_ex device;
  bench_require(!ibv_query_device_ex(bed->b.context, NULL, &device), "ibv_query_device_ex");
  bench_require(device.cq_mod_caps.max_cq_count && device.cq_mod_caps.max_cq_period, "its caps");
  struct ibv_comp_channel* channel = ibv_create_comp_channel(bed->b.context);
  bench_require(channel && !ibv_destroy_cq(bed->b.cq), "a channel");
  bed->b.cq = ibv_create_cq(bed->b.context, 16, NULL, channel, 0);
  bench_require(bed->b.cq != NULL, "ibv_create_cq");
  struct link link = connect_ends(bed);
  const struct ibv_sge from = {kNowhere, kBytes, ibv_alloc_null_mr(bed->a.pd)->lkey};
  const struct ibv_sge to = {kNowhere, kBytes, ibv_alloc_null_mr(bed->b.pd)->lkey};
  struct ibv_modify_cq_attr moderation = {IBV_CQ_ATTR_MODERATE, {.cq_count = 2, .cq_period = 5000}};
  ca_returns(ibv_modify_cq(bed->b.cq, &moderation), 0, "ibv_modify_cq");
  for (int messages = 1; messages <= 2; ++messages) {
    bench_require(!ibv_req_notify_cq(bed->b.cq, 0), "ibv_req_notify_cq");
    for (int i = 0; i < messages; ++i) send_to(&link, from, to);
    for (int i = 0; i < messages; ++i) await_success(bed->a.cq);
    await_event(channel);
    for (int i = 0; i < messages; ++i) await_success(bed->b.cq);
  }
  moderation.attr_mask = 0;
  ca_returns(ibv_modify_cq(bed->b.cq, &moderation), EINVAL, "ibv_modify_cq of nothing");
}
