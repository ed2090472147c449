/* SPDX-License-Identifier: Apache-2.0
 * Rates that programs ask for bound what leaves: sending takes at least its time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

enum {
  kMessageBytes = 65536,
  kMessages = 64,
  kDatagramBytes = 1024,
  kDatagrams = 8192,
  /* After a pause so much leaves at once. */
  kBurstBytes = 65536 + 2 * 4200,
  kKbps = 100000,
};

static uint8_t memory_a[kMessageBytes], memory_b[kMessageBytes + 64];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void await(struct ibv_cq* cq) {
  struct ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  bench_require(wc.status == IBV_WC_SUCCESS, "a work");
}

/* Seconds of kMessages WRITEs. */
static double write_all(struct bench_end* end, struct ibv_qp* qp, const struct ibv_mr* from,
                        const struct ibv_mr* to) {
  struct ibv_sge sge = {(uintptr_t)from->addr, kMessageBytes, from->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)to->addr, to->rkey}};
  struct ibv_send_wr* bad;
  const double begin = now();
  for (int i = 0; i < kMessages; ++i) {
    bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    await(end->cq);
  }
  return now() - begin;
}

static void is_bound(double seconds, double bytes, double bps, const char* what) {
  const double least = (bytes - kBurstBytes) * 8 / bps;
  if (seconds >= least) return;
  fprintf(stderr, "%s: %.4f s instead of %.4f at least\n", what, seconds, least);
  exit(1);
}

static void limit(struct ibv_qp* qp, uint32_t kbps) {
  struct ibv_qp_rate_limit_attr attributes = {.rate_limit = kbps};
  ca_returns(ibv_modify_qp_rate_limit(qp, &attributes), 0, "ibv_modify_qp_rate_limit");
  struct ibv_qp_attr found;
  struct ibv_qp_init_attr init;
  bench_require(!ibv_query_qp(qp, &found, IBV_QP_RATE_LIMIT, &init), "ibv_query_qp");
  bench_require(found.rate_limit == kbps, "the limit that was set");
}

static void of_connections(struct ca_bed* bed) {
  struct ibv_qp* a = bench_make_qp(&bed->a, 4, 0);
  struct ibv_qp* b = bench_make_qp(&bed->b, 4, 0);
  bench_connect(&bed->a, a, &bed->b, b);
  struct ibv_mr* from = ibv_reg_mr(bed->a.pd, memory_a, kMessageBytes, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr* to = ibv_reg_mr(bed->b.pd, memory_b, kMessageBytes,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(from && to, "ibv_reg_mr");
  limit(a, kKbps);
  is_bound(write_all(&bed->a, a, from, to), (double)kMessages * kMessageBytes, kKbps * 1e3,
           "a connection");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .rate_limit = 2 * kKbps};
  ca_returns(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0, "IBV_QP_RATE_LIMIT");
  is_bound(write_all(&bed->a, a, from, to), (double)kMessages * kMessageBytes, 2e3 * kKbps,
           "a connection with another limit");
  limit(a, 0);
  bench_require(write_all(&bed->a, a, from, to) > 0, "a connection without a limit");
  struct ibv_qp_rate_limit_attr low = {.rate_limit = 1};
  ca_returns(ibv_modify_qp_rate_limit(a, &low), EINVAL, "a limit below the least");
  struct ibv_qp_rate_limit_attr newer = {.rate_limit = kKbps, .comp_mask = 1};
  ca_returns(ibv_modify_qp_rate_limit(a, &newer), EINVAL, "an attribute that is not known");
  bench_require(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "ibv_destroy_qp");
  bench_require(!ibv_dereg_mr(from) && !ibv_dereg_mr(to), "ibv_dereg_mr");
}

static struct ibv_qp* datagrams_of(struct bench_end* end) {
  struct ibv_qp_init_attr init = {.send_cq = end->cq,
                                  .recv_cq = end->cq,
                                  .qp_type = IBV_QPT_UD,
                                  .cap = {.max_send_wr = 8, .max_send_sge = 1, .max_recv_wr = 1}};
  struct ibv_qp* qp = ibv_create_qp(end->pd, &init);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
  bench_require(
      qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
      "INIT");
  attr.qp_state = IBV_QPS_RTR;
  bench_require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
  attr.qp_state = IBV_QPS_RTS;
  bench_require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
  return qp;
}

/* No queue pair receives them. */
static void of_address_handles(struct ca_bed* bed) {
  struct ibv_qp* qp = datagrams_of(&bed->a);
  struct ibv_ah_attr path = {
      .is_global = 1,
      .port_num = 1,
      .static_rate = IBV_RATE_2_5_GBPS,
      .grh = {.dgid = bed->b.gid, .sgid_index = (uint8_t)bed->a.gid_index, .hop_limit = 1}};
  struct ibv_ah* ah = ibv_create_ah(bed->a.pd, &path);
  struct ibv_mr* from = ibv_reg_mr(bed->a.pd, memory_a, kMessageBytes, IBV_ACCESS_LOCAL_WRITE);
  bench_require(ah && from, "an address handle");
  struct ibv_sge sge = {(uintptr_t)memory_a, kDatagramBytes, from->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.ud = {ah, 0x123456, 7}};
  struct ibv_send_wr* bad;
  const double begin = now();
  for (int i = 0; i < kDatagrams; ++i) {
    bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    await(bed->a.cq);
  }
  is_bound(now() - begin, (double)kDatagrams * kDatagramBytes, 2.5e9, "an address handle");
  bench_require(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp) && !ibv_dereg_mr(from), "the end");
}

static void of_devices(const struct bench_end* end) {
  struct ibv_device_attr_ex device;
  bench_require(!ibv_query_device_ex(end->context, NULL, &device), "ibv_query_device_ex");
  const struct ibv_packet_pacing_caps caps = device.packet_pacing_caps;
  bench_require(caps.qp_rate_limit_min <= kKbps && caps.qp_rate_limit_max >= 25000000,
                "the range of limits");
  bench_require((caps.supported_qpts >> IBV_QPT_RC & 1) && (caps.supported_qpts >> IBV_QPT_UD & 1),
                "the types that have limits");
}

void ca_rate_limits(struct ca_bed* bed) {
  of_devices(&bed->a);
  of_connections(bed);
  of_address_handles(bed);
}
