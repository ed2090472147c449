/* SPDX-License-Identifier: Apache-2.0
 * Opens and connects. */
#include "connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char* what) {
  perror(what);
  exit(2);
}

static struct ibv_context* open_named(const char* name) {
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  struct ibv_context* context = NULL;
  for (int i = 0; i < count && context == NULL; ++i) {
    if (strcmp(ibv_get_device_name(devices[i]), name) == 0) context = ibv_open_device(devices[i]);
  }
  if (devices != NULL) ibv_free_device_list(devices);
  if (context == NULL) fail(name);
  return context;
}

/* The first global address: IPv4-mapped or not link-local. */
static void choose_gid(struct end* end) {
  for (int i = 0; i < 32; ++i) {
    if (ibv_query_gid(end->context, 1, i, &end->gid) != 0) break;
    if (end->gid.raw[0] == 0xfe || end->gid.global.interface_id == 0) continue;
    end->gid_index = i;
    return;
  }
  fail("no usable GID");
}

static void open_end(struct end* end, const char* name) {
  end->context = open_named(name);
  choose_gid(end);
  end->pd = ibv_alloc_pd(end->context);
  end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
  if (end->pd == NULL || end->cq == NULL) fail("pd, cq");
  struct ibv_qp_init_attr init = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  end->qp = ibv_create_qp(end->pd, &init);
  if (end->qp == NULL) fail("ibv_create_qp");
}

static void make_ready(struct end* end, const struct end* peer) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    fail("INIT");
  }
  memset(&attr, 0, sizeof(attr));
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp->qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer->gid;
  attr.ah_attr.grh.sgid_index = (uint8_t)end->gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    fail("RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  if (ibv_modify_qp(end->qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    fail("RTS");
  }
}

void connect_ends(struct end ends[2], const char* const names[2]) {
  for (int i = 0; i < 2; ++i) open_end(&ends[i], names[i]);
  for (int i = 0; i < 2; ++i) make_ready(&ends[i], &ends[1 - i]);
}
