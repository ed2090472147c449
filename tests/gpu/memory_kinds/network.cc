// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/memory_kinds/network.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::memory_kinds {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kSges = 8;
constexpr std::chrono::seconds kPatience{60};

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

}  // namespace

const char* NameOf(Verb verb) {
  switch (verb) {
    case Verb::kWrite:
      return "WRITE";
    case Verb::kRead:
      return "READ";
    case Verb::kSend:
      return "SEND";
    case Verb::kImmediate:
      return "immediate";
  }
  return "";
}

Network::Network(const char* name_a, const char* name_b) {
  Open(ends_[0], name_a);
  Open(ends_[1], name_b);
  Connect();
}

void Network::Open(End& end, const char* name) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count && end.context == nullptr; ++i) {
    if (std::strcmp(ibv_get_device_name(devices[i]), name) == 0) {
      end.context = ibv_open_device(devices[i]);
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  if (end.context == nullptr) memory_kinds::Fail(name);
  end.gid_index = ChooseGid(end.context, end.gid);
  end.pd = ibv_alloc_pd(end.context);
  end.cq = ibv_create_cq(end.context, 64, nullptr, nullptr, 0);
  if (end.pd == nullptr || end.cq == nullptr) memory_kinds::Fail("pd, cq");
}

void Network::Connect() {
  for (End& end : ends_) {
    if (end.qp != nullptr) ibv_destroy_qp(end.qp);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = end.cq;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = kSges,
                .max_recv_sge = kSges,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    end.qp = ibv_create_qp(end.pd, &init);
    if (end.qp == nullptr) memory_kinds::Fail("ibv_create_qp");
  }
  for (int i = 0; i < 2; ++i) {
    const End& end = ends_[i];
    const End& peer = ends_[1 - i];
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    int error = ibv_modify_qp(end.qp, &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(end.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    if (error == 0) {
      error = ibv_modify_qp(end.qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    if (error == 0) {
      error = ibv_modify_qp(end.qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (error != 0) memory_kinds::Fail("ibv_modify_qp");
  }
}

ibv_mr* Network::Register(int end, uint64_t address, size_t bytes) {
  return ibv_reg_mr(ends_[end].pd, reinterpret_cast<void*>(address), bytes, kAccess);
}

ibv_mr* Network::RegisterDmabuf(int end, uint64_t address, size_t bytes, int fd) {
  return ibv_reg_dmabuf_mr(ends_[end].pd, 0, bytes, address, fd, kAccess);
}

std::string Network::Fail(std::string why) {
  ibv_wc rest;
  Connect();
  for (End& end : ends_) {
    while (ibv_poll_cq(end.cq, 1, &rest) > 0) continue;
  }
  return why;
}

std::string Network::Post(int end, ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  request.send_flags |= IBV_SEND_SIGNALED;
  const int error = ibv_post_send(ends_[end].qp, &request, &bad);
  return error == 0 ? "" : std::string("ibv_post_send: ") + std::strerror(error);
}

std::string Network::Await(int end) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  ibv_wc completion;
  while (std::chrono::steady_clock::now() < until) {
    const int polled = ibv_poll_cq(ends_[end].cq, 1, &completion);
    if (polled < 0) return "ibv_poll_cq failed";
    if (polled == 1) {
      return completion.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(completion.status);
    }
  }
  return "no completion";
}

std::string Network::Transfer(Verb verb, int end, std::vector<ibv_sge> from,
                              std::vector<ibv_sge> to, uint32_t from_rkey, uint32_t to_rkey) {
  const bool reads = verb == Verb::kRead;
  const int poster = reads ? 1 - end : end;
  std::vector<ibv_sge>& local = reads ? to : from;
  ibv_send_wr request = {};
  request.sg_list = local.data();
  request.num_sge = static_cast<int>(local.size());
  request.opcode = reads                  ? IBV_WR_RDMA_READ
                   : verb == Verb::kWrite ? IBV_WR_RDMA_WRITE
                   : verb == Verb::kSend  ? IBV_WR_SEND
                                          : IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.rdma.remote_addr = reads ? from[0].addr : to[0].addr;
  request.wr.rdma.rkey = reads ? from_rkey : to_rkey;
  const bool receives = verb == Verb::kSend || verb == Verb::kImmediate;
  if (receives) {
    ibv_recv_wr receive = {};
    ibv_recv_wr* bad = nullptr;
    receive.sg_list = to.data();
    receive.num_sge = verb == Verb::kSend ? static_cast<int>(to.size()) : 0;
    if (ibv_post_recv(ends_[1 - end].qp, &receive, &bad) != 0) return Fail("ibv_post_recv");
  }
  std::string failed = Post(poster, request);
  if (failed.empty()) failed = Await(poster);
  if (failed.empty() && receives) failed = Await(1 - end);
  return failed.empty() ? failed : Fail(failed);
}

std::string Network::Move(Verb verb, int end, Place from, Place to, uint32_t bytes) {
  return Transfer(verb, end, {{from.address, bytes, from.mr->lkey}},
                  {{to.address, bytes, to.mr->lkey}}, from.mr->rkey, to.mr->rkey);
}

std::string Network::Gather(Verb verb, int end, const std::vector<ibv_sge>& from, Place to) {
  uint32_t bytes = 0;
  for (const ibv_sge& part : from) bytes += part.length;
  return Transfer(verb, end, from, {{to.address, bytes, to.mr->lkey}}, 0, to.mr->rkey);
}

std::string Network::Scatter(Verb verb, int end, Place from, const std::vector<ibv_sge>& to) {
  uint32_t bytes = 0;
  for (const ibv_sge& part : to) bytes += part.length;
  return Transfer(verb, end, {{from.address, bytes, from.mr->lkey}}, to, from.mr->rkey, 0);
}

std::string Network::Atomic(int end, bool compares, Place result, Place to, uint64_t compare_add,
                            uint64_t swap) {
  ibv_sge place = {result.address, sizeof(uint64_t), result.mr->lkey};
  ibv_send_wr request = {};
  request.sg_list = &place;
  request.num_sge = 1;
  request.opcode = compares ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = to.address;
  request.wr.atomic.rkey = to.mr->rkey;
  request.wr.atomic.compare_add = compare_add;
  request.wr.atomic.swap = swap;
  std::string failed = Post(end, request);
  if (failed.empty()) failed = Await(end);
  return failed.empty() ? failed : Fail(failed);
}

}  // namespace uroce::memory_kinds
