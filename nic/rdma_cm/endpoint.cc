// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/endpoint.h"

#include <algorithm>

namespace uroce::nic::rdma_cm {
namespace {

constexpr uint8_t kPort = 1;

void AddRtr(const Endpoint& endpoint, const cm::QueuePairAttributes& agreed, uint8_t gid_index,
            QueuePairAttributes& attributes) {
  ibv_qp_attr& attr = attributes.attr;
  attr.ah_attr = AddressVectorOf(*endpoint.path, gid_index);
  attr.path_mtu = static_cast<ibv_mtu>(agreed.path_mtu);
  attr.dest_qp_num = agreed.dest_qpn.value();
  attr.rq_psn = endpoint.starting_psn.value();
  attributes.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (endpoint.qp_type != IBV_QPT_RC && endpoint.qp_type != IBV_QPT_XRC_RECV) return;
  attr.max_dest_rd_atomic = agreed.max_dest_rd_atomic;
  attr.min_rnr_timer = 0;
  attributes.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void AddRts(const Endpoint& endpoint, const cm::QueuePairAttributes& agreed,
            QueuePairAttributes& attributes) {
  ibv_qp_attr& attr = attributes.attr;
  attr.sq_psn = agreed.sq_psn.value();
  attributes.mask |= IBV_QP_SQ_PSN;
  if (endpoint.qp_type == IBV_QPT_UC) return;
  attr.timeout = endpoint.ack_timeout.value_or(agreed.timeout);
  attributes.mask |= IBV_QP_TIMEOUT;
  if (endpoint.qp_type == IBV_QPT_XRC_RECV) return;
  attr.retry_cnt = agreed.retry_count;
  attr.rnr_retry = agreed.rnr_retry;
  attr.max_rd_atomic = agreed.max_rd_atomic;
  attributes.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

void AddInit(QueuePairAttributes& attributes) {
  attributes.attr.pkey_index = 0;
  attributes.attr.port_num = kPort;
  attributes.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
}

}  // namespace

ibv_ah_attr AddressVectorOf(const PathRecord& path, uint8_t gid_index) {
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = kPort;
  address.sl = path.sl;
  address.grh.sgid_index = gid_index;
  address.grh.flow_label = path.flow_label;
  address.grh.hop_limit = path.hop_limit;
  address.grh.traffic_class = path.traffic_class;
  std::ranges::copy(path.destination.bytes, address.grh.dgid.raw);
  return address;
}

// Access rights are set once the peer's rights are known: the queue pair passes INIT twice.
Result UnconnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                             QueuePairAttributes& attributes) {
  attributes = {.attr = {.qp_state = state}, .mask = IBV_QP_STATE};
  if (state == IBV_QPS_INIT) {
    AddInit(attributes);
    if (!endpoint.is_datagram()) {
      attributes.mask |= IBV_QP_ACCESS_FLAGS;
      return Result::kOk;
    }
    attributes.attr.qkey = kDatagramQkey;
    attributes.mask |= IBV_QP_QKEY;
    return Result::kOk;
  }
  if (!endpoint.is_datagram()) return Result::kWrongState;
  if (state == IBV_QPS_RTR) return Result::kOk;
  if (state != IBV_QPS_RTS) return Result::kInvalid;
  attributes.mask |= IBV_QP_SQ_PSN;
  return Result::kOk;
}

Result ConnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                           const cm::QueuePairAttributes& agreed, uint8_t gid_index,
                           QueuePairAttributes& attributes) {
  attributes = {.attr = {.qp_state = state}, .mask = IBV_QP_STATE};
  switch (state) {
    case IBV_QPS_INIT:
      AddInit(attributes);
      attributes.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (agreed.max_dest_rd_atomic != 0) {
        attributes.attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      }
      attributes.mask |= IBV_QP_ACCESS_FLAGS;
      return Result::kOk;
    case IBV_QPS_RTR:
      AddRtr(endpoint, agreed, gid_index, attributes);
      return Result::kOk;
    case IBV_QPS_RTS:
      AddRts(endpoint, agreed, attributes);
      return Result::kOk;
    default:
      return Result::kInvalid;
  }
}

}  // namespace uroce::nic::rdma_cm
