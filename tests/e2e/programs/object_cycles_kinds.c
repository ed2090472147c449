/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/programs/object_cycles_kinds.h"

#include <fcntl.h>

enum { kDepth = 4, kBytes = 4096 };

/* 239.0.0.9 */
static const union ibv_gid kGroup = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 9}};

static void make_domains(struct cycles_objects* objects, const struct bench_end* end) {
  struct ibv_td_init_attr none = {0};
  objects->td = ibv_alloc_td(end->context, &none);
  struct ibv_parent_domain_init_attr of = {.pd = end->pd, .td = objects->td};
  objects->parent = ibv_alloc_parent_domain(end->context, &of);
  struct ibv_xrcd_init_attr own = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  objects->xrcd = ibv_open_xrcd(end->context, &own);
  bench_require(objects->td && objects->parent && objects->xrcd, "domains");
}

static void make_regions(struct cycles_objects* objects, const struct bench_end* end) {
  struct ibv_alloc_dm_attr attributes = {.length = kBytes};
  objects->dm = ibv_alloc_dm(end->context, &attributes);
  objects->of_dm = ibv_reg_dm_mr(end->pd, objects->dm, 0, kBytes,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
  objects->null = ibv_alloc_null_mr(end->pd);
  bench_require(objects->dm && objects->of_dm && objects->null, "regions");
}

static void make_queues(struct cycles_objects* objects, const struct bench_end* end) {
  struct ibv_cq_init_attr_ex cq = {.cqe = kDepth, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
  objects->cq = ibv_create_cq_ex(end->context, &cq);
  bench_require(objects->cq != NULL, "ibv_create_cq_ex");
  struct ibv_modify_cq_attr moderation = {IBV_CQ_ATTR_MODERATE, {2, 1000}};
  bench_require(!ibv_modify_cq(ibv_cq_ex_to_cq(objects->cq), &moderation), "ibv_modify_cq");
  struct ibv_srq_init_attr srq = {.attr = {kDepth, 1, 0}};
  objects->srq = ibv_create_srq(end->pd, &srq);
  struct ibv_srq_attr limit = {.srq_limit = 1};
  bench_require(objects->srq && !ibv_modify_srq(objects->srq, &limit, IBV_SRQ_LIMIT), "an SRQ");
  struct ibv_srq_init_attr_ex xrc = {.attr = {kDepth, 1, 0},
                                     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                  IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
                                     .srq_type = IBV_SRQT_XRC,
                                     .pd = end->pd,
                                     .cq = end->cq,
                                     .xrcd = objects->xrcd};
  objects->xrc_srq = ibv_create_srq_ex(end->context, &xrc);
  bench_require(objects->xrc_srq != NULL, "an SRQ of XRC");
}

static struct ibv_qp* make_queue_pair(struct cycles_objects* objects, const struct bench_end* end,
                                      enum ibv_qp_type type) {
  struct ibv_cq* cq = ibv_cq_ex_to_cq(objects->cq);
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .srq = type == IBV_QPT_UC ? objects->srq : NULL,
                                  .qp_type = type,
                                  .cap = {kDepth, kDepth, 1, 1, 0}};
  struct ibv_qp* qp = ibv_create_qp(type == IBV_QPT_UD ? objects->parent : end->pd, &init);
  bench_require(qp != NULL, "ibv_create_qp");
  return qp;
}

static void make_queue_pairs(struct cycles_objects* objects, const struct bench_end* end) {
  struct ibv_qp_init_attr_ex target = {
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = objects->xrcd};
  objects->target = ibv_create_qp_ex(end->context, &target);
  bench_require(objects->target != NULL, "a target of XRC");
  objects->initiator = make_queue_pair(objects, end, IBV_QPT_XRC_SEND);
  objects->unreliable = make_queue_pair(objects, end, IBV_QPT_UC);
  objects->datagrams = make_queue_pair(objects, end, IBV_QPT_UD);
  bench_require(!ibv_attach_mcast(objects->datagrams, &kGroup, 0), "ibv_attach_mcast");
}

void cycles_make_objects(struct cycles_objects* objects, const struct bench_end* end) {
  make_domains(objects, end);
  make_regions(objects, end);
  make_queues(objects, end);
  make_queue_pairs(objects, end);
}

void cycles_unmake_objects(struct cycles_objects* objects) {
  bench_require(!ibv_detach_mcast(objects->datagrams, &kGroup, 0), "ibv_detach_mcast");
  struct ibv_qp* queue_pairs[] = {objects->target, objects->initiator, objects->unreliable,
                                  objects->datagrams};
  for (int i = 0; i < 4; ++i) bench_require(!ibv_destroy_qp(queue_pairs[i]), "ibv_destroy_qp");
  bench_require(!ibv_destroy_srq(objects->srq), "ibv_destroy_srq");
  bench_require(!ibv_destroy_srq(objects->xrc_srq), "ibv_destroy_srq");
  bench_require(!ibv_destroy_cq(ibv_cq_ex_to_cq(objects->cq)), "ibv_destroy_cq");
  bench_require(!ibv_dereg_mr(objects->null), "ibv_dereg_mr");
  bench_require(!ibv_dereg_mr(objects->of_dm), "ibv_dereg_mr");
  bench_require(!ibv_free_dm(objects->dm), "ibv_free_dm");
  bench_require(!ibv_close_xrcd(objects->xrcd), "ibv_close_xrcd");
  bench_require(!ibv_dealloc_pd(objects->parent), "ibv_dealloc_pd");
  bench_require(!ibv_dealloc_td(objects->td), "ibv_dealloc_td");
}
