// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/verbs/end.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::memory_kinds {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kSges = 8;
constexpr std::chrono::seconds kPatience{120};

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(2);
}

/// The first global address of the port.
int ChooseGid(ibv_context* context, ibv_gid& gid) {
  for (int i = 0; ibv_query_gid(context, 1, i, &gid) == 0; ++i) {
    if (gid.raw[0] != 0xfe && gid.global.interface_id != 0) return i;
  }
  Fail("no usable GID");
}

ibv_context* OpenNamed(const char* name) {
  int count = 0;
  ibv_context* context = nullptr;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (std::strcmp(ibv_get_device_name(devices[i]), name) == 0) {
      context = ibv_open_device(devices[i]);
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  if (context == nullptr) Fail(name);
  return context;
}

}  // namespace

End::End(const char* name) : context_(OpenNamed(name)) {
  gid_index_ = ChooseGid(context_, gid_);
  pd_ = ibv_alloc_pd(context_);
  cq_ = ibv_create_cq(context_, 2 * kDepth, nullptr, nullptr, 0);
  if (pd_ == nullptr || cq_ == nullptr) Fail("pd, cq");
  MakeQueuePair();
}

void End::MakeQueuePair() {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = kDepth,
              .max_recv_wr = kDepth,
              .max_send_sge = kSges,
              .max_recv_sge = kSges,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  qp_ = ibv_create_qp(pd_, &init);
  if (qp_ == nullptr) Fail("ibv_create_qp");
}

EndInfo End::info() const {
  EndInfo info = {};
  info.qpn = qp_->qp_num;
  info.gid = gid_;
  return info;
}

void End::Connect(const EndInfo& peer, uint8_t timeout) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAccess;
  int error = ibv_modify_qp(qp_, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index_);
  attr.ah_attr.grh.hop_limit = 64;
  if (error == 0) {
    error = ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = timeout;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  if (error == 0) {
    error = ibv_modify_qp(qp_, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) Fail("ibv_modify_qp");
}

void End::Reset() {
  ibv_destroy_qp(qp_);
  MakeQueuePair();
  ibv_wc rest;
  while (ibv_poll_cq(cq_, 1, &rest) > 0) continue;
}

ibv_mr* End::Register(uint64_t address, size_t bytes) {
  return ibv_reg_mr(pd_, reinterpret_cast<void*>(address), bytes, kAccess);
}

ibv_mr* End::RegisterDmabuf(uint64_t address, size_t bytes, int fd) {
  return ibv_reg_dmabuf_mr(pd_, 0, bytes, address, fd, kAccess);
}

std::string End::Post(ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  request.send_flags |= IBV_SEND_SIGNALED;
  const int error = ibv_post_send(qp_, &request, &bad);
  return error == 0 ? "" : std::string("ibv_post_send: ") + std::strerror(error);
}

std::string End::PostOneSided(ibv_wr_opcode opcode, ibv_sge local, uint64_t remote, uint32_t rkey) {
  ibv_send_wr request = {};
  request.sg_list = &local;
  request.num_sge = 1;
  request.opcode = opcode;
  request.wr.rdma.remote_addr = remote;
  request.wr.rdma.rkey = rkey;
  return Post(request);
}

bool End::Receive(ibv_recv_wr& receive) {
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp_, &receive, &bad) == 0;
}

std::string End::Await() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  ibv_wc completion;
  while (std::chrono::steady_clock::now() < until) {
    const int polled = ibv_poll_cq(cq_, 1, &completion);
    if (polled < 0) return "ibv_poll_cq failed";
    if (polled == 1) {
      return completion.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(completion.status);
    }
  }
  return "no completion";
}

}  // namespace uroce::memory_kinds
