/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

void bench_open(struct bench_end* end, const char* device, uint32_t gid_index, int cqe) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  bench_require(list != NULL, "ibv_get_device_list");
  for (int i = 0; i < count; ++i) {
    if (!strcmp(ibv_get_device_name(list[i]), device)) end->context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  bench_require(end->context != NULL, device);
  end->pd = ibv_alloc_pd(end->context);
  bench_require(end->pd != NULL, "ibv_alloc_pd");
  end->cq = ibv_create_cq(end->context, cqe, NULL, NULL, 0);
  bench_require(end->cq != NULL, "ibv_create_cq");
  end->gid_index = gid_index;
  bench_require(!ibv_query_gid(end->context, 1, (int)gid_index, &end->gid), "ibv_query_gid");
}

struct ibv_qp* bench_make_qp(const struct bench_end* end, uint32_t depth, uint32_t max_inline) {
  struct ibv_qp_init_attr attributes = {.send_cq = end->cq,
                                        .recv_cq = end->cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = depth,
                                                .max_recv_wr = depth,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1,
                                                .max_inline_data = max_inline}};
  struct ibv_qp* qp = ibv_create_qp(end->pd, &attributes);
  bench_require(qp != NULL, "ibv_create_qp");
  struct ibv_qp_attr init = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  bench_require(
      !ibv_modify_qp(qp, &init,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      "to INIT");
  return qp;
}

static void to_rts(const struct bench_end* own, struct ibv_qp* qp, const struct bench_end* peer,
                   uint32_t peer_qpn) {
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_4096,
      .dest_qp_num = peer_qpn,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {
          .is_global = 1,
          .port_num = 1,
          .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)own->gid_index, .hop_limit = 64}}};
  bench_require(
      !ibv_modify_qp(qp, &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      "to RTR");
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  bench_require(!ibv_modify_qp(qp, &rts,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                "to RTS");
}

void bench_connect(const struct bench_end* a, struct ibv_qp* qp_a, const struct bench_end* b,
                   struct ibv_qp* qp_b) {
  to_rts(a, qp_a, b, qp_b->qp_num);
  to_rts(b, qp_b, a, qp_a->qp_num);
}
