// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/verbs_ops.h"

#include <string.h>

#include <type_traits>

namespace uroce::shim {

uroce_qp_cap ToAbi(const ibv_qp_cap& cap) {
  return {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge,
          cap.max_inline_data};
}

ibv_qp_cap FromAbi(const uroce_qp_cap& cap) {
  return {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge,
          cap.max_inline_data};
}

uroce_ah_attr ToAbi(const ibv_ah_attr& attr) {
  uroce_ah_attr to = {};
  memcpy(to.dgid, attr.grh.dgid.raw, sizeof(to.dgid));
  to.flow_label = attr.grh.flow_label;
  to.sgid_index = attr.grh.sgid_index;
  to.hop_limit = attr.grh.hop_limit;
  to.traffic_class = attr.grh.traffic_class;
  to.is_global = attr.is_global;
  to.sl = attr.sl;
  to.port_num = attr.port_num;
  to.static_rate = attr.static_rate;
  return to;
}

ibv_ah_attr FromAbi(const uroce_ah_attr& attr) {
  ibv_ah_attr to = {};
  memcpy(to.grh.dgid.raw, attr.dgid, sizeof(attr.dgid));
  to.grh.flow_label = attr.flow_label;
  to.grh.sgid_index = attr.sgid_index;
  to.grh.hop_limit = attr.hop_limit;
  to.grh.traffic_class = attr.traffic_class;
  to.is_global = attr.is_global;
  to.sl = attr.sl;
  to.port_num = attr.port_num;
  to.static_rate = attr.static_rate;
  return to;
}

uroce_qp_attr ToAbi(const ibv_qp_attr& attr, int mask) {
  uroce_qp_attr to = {};
  to.attr_mask = static_cast<uint32_t>(mask);
  const auto take = [mask](int bit, auto& field, auto value) {
    if ((mask & bit) != 0) field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  };
  take(IBV_QP_STATE, to.qp_state, attr.qp_state);
  take(IBV_QP_CUR_STATE, to.cur_qp_state, attr.cur_qp_state);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, to.en_sqd_async_notify, attr.en_sqd_async_notify);
  take(IBV_QP_ACCESS_FLAGS, to.qp_access_flags, attr.qp_access_flags);
  take(IBV_QP_PKEY_INDEX, to.pkey_index, attr.pkey_index);
  take(IBV_QP_PORT, to.port_num, attr.port_num);
  take(IBV_QP_QKEY, to.qkey, attr.qkey);
  take(IBV_QP_PATH_MTU, to.path_mtu, attr.path_mtu);
  take(IBV_QP_TIMEOUT, to.timeout, attr.timeout);
  take(IBV_QP_RETRY_CNT, to.retry_cnt, attr.retry_cnt);
  take(IBV_QP_RNR_RETRY, to.rnr_retry, attr.rnr_retry);
  take(IBV_QP_RQ_PSN, to.rq_psn, attr.rq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, to.max_rd_atomic, attr.max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, to.min_rnr_timer, attr.min_rnr_timer);
  take(IBV_QP_SQ_PSN, to.sq_psn, attr.sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, to.max_dest_rd_atomic, attr.max_dest_rd_atomic);
  take(IBV_QP_PATH_MIG_STATE, to.path_mig_state, attr.path_mig_state);
  take(IBV_QP_DEST_QPN, to.dest_qp_num, attr.dest_qp_num);
  take(IBV_QP_RATE_LIMIT, to.rate_limit, attr.rate_limit);
  if ((mask & IBV_QP_AV) != 0) to.ah_attr = ToAbi(attr.ah_attr);
  if ((mask & IBV_QP_CAP) != 0) to.cap = ToAbi(attr.cap);
  return to;
}

ibv_qp_attr FromAbi(const uroce_qp_attr& attr) {
  ibv_qp_attr to = {};
  to.qp_state = StateFromAbi(attr.qp_state);
  to.cur_qp_state = to.qp_state;
  to.path_mtu = static_cast<ibv_mtu>(attr.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(attr.path_mig_state);
  to.qkey = attr.qkey;
  to.rq_psn = attr.rq_psn;
  to.sq_psn = attr.sq_psn;
  to.dest_qp_num = attr.dest_qp_num;
  to.qp_access_flags = attr.qp_access_flags;
  to.cap = FromAbi(attr.cap);
  to.ah_attr = FromAbi(attr.ah_attr);
  to.pkey_index = attr.pkey_index;
  to.en_sqd_async_notify = attr.en_sqd_async_notify;
  to.sq_draining = attr.sq_draining;
  to.max_rd_atomic = attr.max_rd_atomic;
  to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  to.min_rnr_timer = attr.min_rnr_timer;
  to.port_num = attr.port_num;
  to.timeout = attr.timeout;
  to.retry_cnt = attr.retry_cnt;
  to.rnr_retry = attr.rnr_retry;
  to.rate_limit = attr.rate_limit;
  return to;
}

}  // namespace uroce::shim
