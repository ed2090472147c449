// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/hostile/program.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>

namespace uroce::hostile {
namespace {

constexpr uint32_t kQueuePairsPerDevice = 3;
constexpr uint64_t kRegionBytes = 64 << 10;
constexpr uint32_t kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

Program::Program(const std::string& socket_path, Random& random)
    : client(socket_path), random_(random) {}

Program::~Program() {
  if (arena != nullptr) munmap(arena, UROCE_ARENA_BYTES);
}

bool Program::Make() {
  hello = client.Hello();
  if (hello.hung_up || hello.error != 0) return false;
  void* memory = mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, hello.fds.at(0).get(), 0);
  if (memory == MAP_FAILED) return false;
  arena = static_cast<uint8_t*>(memory);
  for (uint32_t device : {0u, 1u}) {
    if (!MakeContext(device) || !MakeRegion(device)) return false;
    for (uint32_t i = 0; i < kQueuePairsPerDevice; ++i) {
      if (!MakeQueuePair(device)) return false;
    }
  }
  for (uint32_t i = 0; i < kQueuePairsPerDevice; ++i) {
    const QueuePair& here = queue_pairs[i];
    const QueuePair& there = queue_pairs[i + kQueuePairsPerDevice];
    if (!Connect(here, there, 0) || !Connect(there, here, 1)) return false;
  }
  return true;
}

bool Program::MakeContext(uint32_t device) {
  nic::Answer context = client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0});
  if (context.error != 0 || context.hung_up) return false;
  contexts.push_back(context.handle());
  for (nic::Fd& fd : context.fds) files.push_back(std::move(fd));
  pds.push_back(client.Handle(UROCE_ALLOC_PD, contexts.back()).handle());
  nic::Answer channel = client.Handle(UROCE_CREATE_CHANNEL, contexts.back());
  channels.push_back(channel.handle());
  for (nic::Fd& fd : channel.fds) files.push_back(std::move(fd));
  // Small ones overflow.
  const auto entries = static_cast<uint32_t>(1 + Below(random_, 32));
  const nic::Answer cq = client.Call(
      UROCE_CREATE_CQ, uroce_create_cq{contexts.back(), entries, 7, channels.back(), 0});
  cqs.push_back(cq.handle());
  return cq.error == 0;
}

bool Program::MakeRegion(uint32_t device) {
  constexpr uint64_t kAddr = 0x10000;
  nic::Answer segment =
      client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kRegionBytes});
  if (segment.error != 0 || segment.hung_up) return false;
  segments.push_back(segment.handle());
  for (nic::Fd& fd : segment.fds) files.push_back(std::move(fd));
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  message.request.pd = pds[device];
  message.request.access = kAllAccess;
  message.request.addr = message.request.iova = kAddr;
  message.request.length = kRegionBytes;
  message.request.segment_count = 1;
  message.request.replaces = UROCE_NONE;
  message.segment.addr = kAddr;
  message.segment.length = kRegionBytes;
  message.segment.mode = UROCE_MR_MAPPED;
  message.segment.segment = segments.back();
  const nic::Answer made = client.Call(UROCE_REG_MR, message);
  regions.push_back(made.As<uroce_reg_mr_reply>());
  return made.error == 0;
}

bool Program::MakeQueuePair(uint32_t device) {
  const nic::Answer made = client.Call(
      UROCE_CREATE_QP,
      uroce_create_qp{pds[device], IBV_QPT_RC, cqs[device], cqs[device], 9, 0, {16, 16, 4, 4, 64}});
  queue_pairs.push_back({.layout = made.As<uroce_create_qp_reply>()});
  return made.error == 0;
}

bool Program::Connect(const QueuePair& from, const QueuePair& to, uint32_t from_device) {
  const nic::Answer gids = client.Handle(UROCE_QUERY_GIDS, contexts[1 - from_device]);
  uroce_modify_qp modify{};
  modify.handle = from.layout.handle;
  uroce_qp_attr& attr = modify.attr;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAllAccess;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (client.Call(UROCE_MODIFY_QP, modify).error != 0) return false;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = to.layout.qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.sgid_index = 1;
  std::copy_n(gids.As<uroce_gid_entry>(1).gid, 16, attr.ah_attr.dgid);
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (client.Call(UROCE_MODIFY_QP, modify).error != 0) return false;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 10;
  attr.retry_cnt = attr.rnr_retry = 2;
  attr.max_rd_atomic = 4;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return client.Call(UROCE_MODIFY_QP, modify).error == 0;
}

}  // namespace uroce::hostile
