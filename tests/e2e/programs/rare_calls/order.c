/* SPDX-License-Identifier: Apache-2.0
 * What others rest on does not go before them: EBUSY, as the kernel answers, and all goes on. */
#include <errno.h>
#include <fcntl.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

enum { kBytes = 4096 };

static void busy(int returned, const char* what) { ca_returns(returned, EBUSY, what); }
static void gone(int returned, const char* what) { ca_returns(returned, 0, what); }

static void queues_under_queue_pairs(struct bench_end* end) {
  struct ibv_srq_init_attr srq_init = {.attr = {4, 1, 0}};
  struct ibv_srq* srq = ibv_create_srq(end->pd, &srq_init);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(end->context);
  struct ibv_cq* cq = ibv_create_cq(end->context, 4, NULL, channel, 0);
  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {1, 0, 1, 0, 0}};
  struct ibv_qp* qp = ibv_create_qp(end->pd, &init);
  bench_require(srq && channel && cq && qp, "queues");
  busy(ibv_destroy_srq(srq), "a shared queue under a queue pair");
  busy(ibv_destroy_cq(cq), "a CQ under a queue pair");
  busy(ibv_dealloc_pd(end->pd), "a domain under a queue pair");
  gone(ibv_destroy_qp(qp), "ibv_destroy_qp");
  busy(ibv_destroy_comp_channel(channel), "a channel under a CQ");
  busy(ibv_dealloc_pd(end->pd), "a domain under a shared queue");
  gone(ibv_destroy_srq(srq), "ibv_destroy_srq");
  gone(ibv_destroy_cq(cq), "ibv_destroy_cq");
  gone(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}

static void domains_under_memory(struct bench_end* end) {
  static uint8_t bytes[kBytes];
  struct ibv_mr* mr = ibv_reg_mr(end->pd, bytes, kBytes, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mw* window = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1);
  struct ibv_ah_attr path = {
      .is_global = 1,
      .port_num = 1,
      .grh = {.dgid = end->gid, .sgid_index = (uint8_t)end->gid_index, .hop_limit = 1}};
  struct ibv_ah* ah = ibv_create_ah(end->pd, &path);
  struct ibv_alloc_dm_attr dm_attributes = {.length = kBytes};
  struct ibv_dm* dm = ibv_alloc_dm(end->context, &dm_attributes);
  struct ibv_mr* of_dm =
      ibv_reg_dm_mr(end->pd, dm, 0, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
  bench_require(mr && window && ah && dm && of_dm, "memory");
  busy(ibv_free_dm(dm), "device memory under a region");
  gone(ibv_dereg_mr(of_dm), "ibv_dereg_mr");
  gone(ibv_free_dm(dm), "ibv_free_dm");
  busy(ibv_dealloc_pd(end->pd), "a domain under a region");
  gone(ibv_dereg_mr(mr), "ibv_dereg_mr");
  busy(ibv_dealloc_pd(end->pd), "a domain under a window");
  gone(ibv_dealloc_mw(window), "ibv_dealloc_mw");
  busy(ibv_dealloc_pd(end->pd), "a domain under an address");
  gone(ibv_destroy_ah(ah), "ibv_destroy_ah");
}

static void domains_under_domains(struct bench_end* end) {
  struct ibv_td_init_attr none = {0};
  struct ibv_td* td = ibv_alloc_td(end->context, &none);
  struct ibv_parent_domain_init_attr of = {.pd = end->pd, .td = td};
  struct ibv_pd* parent = ibv_alloc_parent_domain(end->context, &of);
  bench_require(td && parent, "a parent domain");
  busy(ibv_dealloc_td(td), "a thread domain under a parent domain");
  busy(ibv_dealloc_pd(end->pd), "a domain under a parent domain");
  gone(ibv_dealloc_pd(parent), "ibv_dealloc_pd");
  gone(ibv_dealloc_td(td), "ibv_dealloc_td");
}

static void groups(struct bench_end* end) {
  const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 7}};
  struct ibv_qp_init_attr init = {
      .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
  struct ibv_qp* qp = ibv_create_qp(end->pd, &init);
  bench_require(qp && !ibv_attach_mcast(qp, &group, 0), "ibv_attach_mcast");
  busy(ibv_destroy_qp(qp), "a queue pair in a group");
  gone(ibv_detach_mcast(qp, &group, 0), "ibv_detach_mcast");
  gone(ibv_destroy_qp(qp), "ibv_destroy_qp");
}

static void xrc_domains(struct bench_end* end) {
  struct ibv_xrcd_init_attr own = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  struct ibv_xrcd* xrcd = ibv_open_xrcd(end->context, &own);
  bench_require(xrcd != NULL, "ibv_open_xrcd");
  struct ibv_srq_init_attr_ex srq_init = {.attr = {4, 1, 0},
                                          .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
                                                       IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                                                       IBV_SRQ_INIT_ATTR_XRCD,
                                          .srq_type = IBV_SRQT_XRC,
                                          .pd = end->pd,
                                          .cq = end->cq,
                                          .xrcd = xrcd};
  struct ibv_srq* srq = ibv_create_srq_ex(end->context, &srq_init);
  struct ibv_qp_init_attr_ex target_init = {
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
  struct ibv_qp* target = ibv_create_qp_ex(end->context, &target_init);
  bench_require(srq && target, "queues of XRC");
  busy(ibv_destroy_cq(end->cq), "a CQ under an XRC queue");
  busy(ibv_close_xrcd(xrcd), "an XRC domain under a target");
  gone(ibv_destroy_qp(target), "ibv_destroy_qp");
  busy(ibv_close_xrcd(xrcd), "an XRC domain under a shared queue");
  gone(ibv_destroy_srq(srq), "ibv_destroy_srq");
  gone(ibv_close_xrcd(xrcd), "ibv_close_xrcd");
}

void ca_wrong_order(struct ca_bed* bed) {
  struct bench_end* end = &bed->a;
  queues_under_queue_pairs(end);
  domains_under_memory(end);
  domains_under_domains(end);
  groups(end);
  xrc_domains(end);
  gone(ibv_destroy_cq(end->cq), "ibv_destroy_cq");
  gone(ibv_dealloc_pd(end->pd), "ibv_dealloc_pd");
  gone(ibv_close_device(end->context), "ibv_close_device");
}
