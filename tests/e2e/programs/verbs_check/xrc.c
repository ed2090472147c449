/* SPDX-License-Identifier: Apache-2.0 */
#include "xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int is_extended(const struct vc_side* side) {
  return side->options->type == IBV_QPT_XRC_SEND;
}

void vc_make_target(struct vc_side* side) {
  struct ibv_xrcd_init_attr domain = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  side->xrcd = ibv_open_xrcd(side->context, &domain);
  if (!side->xrcd) vc_die(side, "ibv_open_xrcd: %s", strerror(errno));
  struct ibv_srq_init_attr_ex queue = {.attr = {.max_wr = VC_RECEIVES, .max_sge = VC_PIECES},
                                       .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                    IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                       .srq_type = IBV_SRQT_XRC,
                                       .pd = side->pd,
                                       .xrcd = side->xrcd,
                                       .cq = side->recv_cq};
  side->srq = ibv_create_srq_ex(side->context, &queue);
  if (!side->srq) vc_die(side, "ibv_create_srq_ex: %s", strerror(errno));
  if (ibv_get_srq_num(side->srq, &side->info.srqn)) vc_die(side, "ibv_get_srq_num failed");
  struct ibv_qp_init_attr_ex target = {
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = side->xrcd};
  side->target = ibv_create_qp_ex(side->context, &target);
  if (!side->target) vc_die(side, "ibv_create_qp_ex: %s", strerror(errno));
  side->info.target_qpn = side->target->qp_num;
}

static void modify(const struct vc_side* side, struct ibv_qp_attr* attributes, int mask) {
  const int error = ibv_modify_qp(side->target, attributes, IBV_QP_STATE | mask);
  if (error) vc_die(side, "the target to state %d: %s", attributes->qp_state, strerror(error));
}

void vc_target_to_init(struct vc_side* side) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                   .port_num = 1,
                                   .qp_access_flags = IBV_ACCESS_REMOTE_READ |
                                                      IBV_ACCESS_REMOTE_WRITE |
                                                      IBV_ACCESS_REMOTE_ATOMIC};
  modify(side, &attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void vc_connect_target(struct vc_side* side) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                   .path_mtu = side->mtu,
                                   .dest_qp_num = side->peer.qpn,
                                   .rq_psn = side->peer.psn,
                                   .max_dest_rd_atomic = 16,
                                   .min_rnr_timer = 12,
                                   .ah_attr = vc_address_vector(side)};
  modify(side, &attributes,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = side->options->ack_timeout;
  modify(side, &attributes, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN);
}

void vc_name_queue(const struct vc_side* side, struct ibv_send_wr* request) {
  if (is_extended(side)) request->qp_type.xrc.remote_srqn = side->peer.srqn;
}

const struct ibv_qp* vc_receiver(const struct vc_side* side) {
  return is_extended(side) ? side->target : side->qp;
}

void vc_close_target(struct vc_side* side) {
  if (ibv_destroy_qp(side->target)) vc_die(side, "ibv_destroy_qp of the target failed");
  if (ibv_destroy_srq(side->srq)) vc_die(side, "ibv_destroy_srq failed");
  side->srq = NULL;
  if (ibv_close_xrcd(side->xrcd)) vc_die(side, "ibv_close_xrcd failed");
}
