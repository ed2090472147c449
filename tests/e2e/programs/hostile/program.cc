// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/programs/hostile/program.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::hostile {
namespace {

// Of each device, in this order; of the XRC one the target is apart.
constexpr uint32_t kTypes[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
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
    if (!MakeContext(device) || !MakeRegion(device) || !MakeExtended(device)) return false;
    for (const uint32_t type : kTypes) {
      if (!MakeQueuePair(device, type)) return false;
    }
  }
  for (uint32_t i = 0; i < queue_pairs.size(); ++i) {
    const auto device = static_cast<uint32_t>(i / std::size(kTypes));
    const QueuePair& its = queue_pairs[i];
    const QueuePair& peer = queue_pairs[(i + std::size(kTypes)) % queue_pairs.size()];
    const bool is_extended = its.type == IBV_QPT_XRC_SEND;
    const uint32_t peer_qpn = is_extended ? targets_[1 - device].qp_num : peer.layout.qp_num;
    const bool started = its.type == IBV_QPT_UD ? StartDatagrams(its, device)
                                                : Connect(its.layout.handle, peer_qpn, device);
    if (!started) return false;
    if (is_extended && !Connect(targets_[device].handle, peer.layout.qp_num, device)) return false;
  }
  return true;
}

bool Program::MakeContext(uint32_t device) {
  nic::Answer context = client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0});
  if (context.error != 0 || context.hung_up) return false;
  contexts.push_back(context.handle());
  for (Fd& fd : context.fds) files.push_back(std::move(fd));
  pds.push_back(client.Handle(UROCE_ALLOC_PD, contexts.back()).handle());
  nic::Answer channel = client.Handle(UROCE_CREATE_CHANNEL, contexts.back());
  channels.push_back(channel.handle());
  for (Fd& fd : channel.fds) files.push_back(std::move(fd));
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
  for (Fd& fd : segment.fds) files.push_back(std::move(fd));
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

bool Program::MakeQueuePair(uint32_t device, uint32_t type) {
  const nic::Answer made = client.Call(
      UROCE_CREATE_QP,
      uroce_create_qp{pds[device], type, cqs[device], cqs[device], 9, 0, {16, 16, 4, 4, 64}});
  queue_pairs.push_back({.type = type, .layout = made.As<uroce_create_qp_reply>()});
  return made.error == 0;
}

bool Program::MakeExtended(uint32_t device) {
  const nic::Answer xrcd =
      client.Call(UROCE_OPEN_XRCD, uroce_open_xrcd{contexts[device], UROCE_NONE, 0, 0});
  if (xrcd.error != 0 || xrcd.hung_up) return false;
  const nic::Answer queue = client.Call(
      UROCE_CREATE_SRQ,
      uroce_create_srq{pds[device], 16, 2, 3, 8, IBV_SRQT_XRC, xrcd.handle(), cqs[device], 0});
  shared_queues.push_back(queue.As<uroce_create_srq_reply>());
  const nic::Answer target =
      client.Call(UROCE_CREATE_TARGET, uroce_create_target{xrcd.handle(), 0, 7});
  targets_.push_back(target.As<uroce_target_reply>());
  return queue.error == 0 && target.error == 0;
}

uroce_ah_attr Program::WayFrom(uint32_t device) {
  const nic::Answer gids = client.Handle(UROCE_QUERY_GIDS, contexts[1 - device]);
  uroce_ah_attr way{};
  way.is_global = way.port_num = way.sgid_index = 1;
  std::copy_n(gids.As<uroce_gid_entry>(1).gid, 16, way.dgid);
  return way;
}

void Program::Post(QueuePair& queue_pair) {
  auto& page = At<uroce_qp_page>(queue_pair.layout.page_offset);
  rings::StoreRelease(page.sq_produced.value, ++queue_pair.posted);
  Ring(queue_pair.layout);
}

void Program::Ring(const uroce_create_qp_reply& layout) const {
  if (!rings::Ring(doorbells(layout.worker), layout.doorbell_slot)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd(layout.worker), &one, sizeof(one));
}

bool Program::Modify(uint32_t handle, const uroce_qp_attr& attr) {
  return client.Call(UROCE_MODIFY_QP, uroce_modify_qp{handle, attr}).error == 0;
}

bool Program::StartDatagrams(const QueuePair& queue_pair, uint32_t device) {
  uroce_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  if (!Modify(queue_pair.layout.handle, attr)) return false;
  attr.qp_state = IBV_QPS_RTR;
  attr.attr_mask = IBV_QP_STATE;
  if (!Modify(queue_pair.layout.handle, attr)) return false;
  attr.qp_state = IBV_QPS_RTS;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  const nic::Answer way =
      client.Call(UROCE_CREATE_AH, uroce_create_ah{pds[device], WayFrom(device)});
  addresses.push_back(way.handle());
  return way.error == 0 && Modify(queue_pair.layout.handle, attr);
}

// What XRC queue pairs of one half lack is not heard.
bool Program::Connect(uint32_t handle, uint32_t peer_qpn, uint32_t device, uint8_t timeout) {
  uroce_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAllAccess;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (!Modify(handle, attr)) return false;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer_qpn;
  attr.max_dest_rd_atomic = 4;
  attr.ah_attr = WayFrom(device);
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (!Modify(handle, attr)) return false;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = timeout;
  attr.retry_cnt = attr.rnr_retry = 2;
  attr.max_rd_atomic = 4;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return Modify(handle, attr);
}

}  // namespace uroce::hostile
