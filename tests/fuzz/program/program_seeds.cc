// SPDX-License-Identifier: Apache-2.0
// The commands of correct programs, as liburoce.so sends them.
#include <infiniband/verbs.h>

#include <cstring>
#include <utility>

#include "nic/ucma/responses.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"
#include "tests/fuzz/program/program_script.h"
#include "tests/fuzz/program/seed_script.h"

namespace uroce::fuzz {
namespace {

// The places of the queues of the first program of a daemon with one worker: the arena gives out
// whole pages from its start.
constexpr uint32_t kPage = 4096;
constexpr uint32_t kQueues =
    (UROCE_DOORBELLS_OFFSET + sizeof(uroce_doorbells) + kPage - 1) / kPage * kPage;
constexpr uint32_t kCqPages = 2;
constexpr uint32_t kSlotBytes = 128;

// Each is followed by the ring of its completion queue, which is made with it.
uint32_t PageOfQueuePair(uint32_t qp) { return kQueues + (kCqPages + 2 * qp) * kPage; }

}  // namespace

void Connect(Script& script, uint32_t qp, uint8_t peer_host, uint32_t peer_qpn) {
  uroce_modify_qp modify{};
  modify.handle = qp;
  uroce_qp_attr& attr = modify.attr;
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAllAccess;
  script.Call(UROCE_MODIFY_QP, modify);
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer_qpn;
  attr.max_dest_rd_atomic = 4;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.sgid_index = 1;
  const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, peer_host};
  std::memcpy(attr.ah_attr.dgid, gid, sizeof(gid));
  script.Call(UROCE_PLACE_QP, modify);
  script.Call(UROCE_MODIFY_QP, modify);
  attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 8;
  attr.retry_cnt = attr.rnr_retry = 2;
  attr.max_rd_atomic = 4;
  script.Call(UROCE_MODIFY_QP, modify);
}

void Register(Script& script, uint32_t pd, uint32_t segment) {
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  message.request = {pd, kAllAccess, kAddr, kBytes, kAddr, 1, UROCE_NONE};
  message.segment = {kAddr, kBytes, UROCE_MR_MAPPED, segment, 0, 0, 0};
  script.Call(UROCE_REG_MR, message);
}

void PostSend(Script& script, uint32_t qp, uint32_t index, uroce_send_wqe wqe, uint32_t length,
              uint32_t rkey) {
  struct {
    uroce_send_wqe wqe;
    uroce_sge sge;
  } slot{};
  wqe.wr_id = index;
  wqe.flags |= UROCE_SEND_SIGNALED;
  wqe.num_sge = 1;
  wqe.remote_addr = kAddr + 4096;
  wqe.rkey = rkey == 0 ? kKeyOf + 1 - qp : rkey;
  slot.wqe = wqe;
  slot.sge = {kAddr, length, kKeyOf + qp};
  const uint32_t page = PageOfQueuePair(qp);
  const auto offset = static_cast<uint32_t>(sizeof(uroce_qp_page)) + index % kDepth * kSlotBytes;
  script.Memory(page + offset, slot);
  script.Memory(page, index + 1);
  script.Short(kRing, qp, 2);
}

void LendMemory(Script& script, uint32_t kind) {
  const uroce_lend lend{UROCE_LEND_MEMORY, 1, 0, 0, 0, 0};
  std::vector<uint8_t> bytes(sizeof(lend));
  std::memcpy(bytes.data(), &lend, sizeof(lend));
  script.Short(kLend, kind, 1).Then(bytes);
}

void RegisterCopied(Script& script, uint32_t pd) {
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{{pd, kAllAccess, kAddr, kBytes, kAddr, 1, UROCE_NONE},
            {kAddr, kBytes, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  script.Call(UROCE_REG_MR, message);
}

namespace {

void PostReceive(Script& script, uint32_t qp, uint32_t index) {
  struct {
    uroce_recv_wqe wqe;
    uroce_sge sge;
  } slot{{index, 1, 0}, {kAddr + 8192, 4096, kKeyOf + qp}};
  const uint32_t page = PageOfQueuePair(qp);
  const auto queue = static_cast<uint32_t>(sizeof(uroce_qp_page)) + kDepth * kSlotBytes;
  script.Memory(page + queue + index % kDepth * 64, slot);
  script.Memory(page + UROCE_LINE, index + 1);
}

std::vector<uint8_t> AllOperations() {
  Script script;
  PostReceive(script, 1, 0);
  PostReceive(script, 1, 1);
  uint32_t index = 0;
  for (const uint8_t opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
                               IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    PostSend(script, 0, index++, {.opcode = opcode, .atomic = {.compare_add = 1}},
             atomic ? 8 : 3000);
    script.Short(kTurns, 4, 1);
  }
  return script.Short(kTurns, 20, 1).Short(kWait, 12, 1).Short(kTurns, 20, 1).bytes();
}

std::vector<uint8_t> ErrorsAndRetries() {
  Script script;
  PostSend(script, 0, 0, {.opcode = IBV_WR_SEND}, 64);  // The peer has no receive for it.
  for (int i = 0; i < 4; ++i) script.Short(kTurns, 4, 1).Short(kWait, 14, 1);
  PostSend(script, 1, 0, {.opcode = IBV_WR_RDMA_WRITE}, 1 << 20);  // Beyond the region.
  PostReceive(script, 1, 0);
  return script.Short(kTurns, 20, 1).Handle(UROCE_QUERY_QP, 0).Handle(UROCE_QUERY_QP, 1).bytes();
}

std::vector<uint8_t> Commands() {
  Script script;
  uroce_create_ah ah{};
  ah.attr.is_global = ah.attr.port_num = ah.attr.sgid_index = 1;
  std::memcpy(ah.attr.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2", 16);
  script.Call(UROCE_LIST_DEVICES).Handle(UROCE_QUERY_PORT, 0).Handle(UROCE_QUERY_GIDS, 0);
  script.Call(UROCE_CREATE_AH, ah).Handle(UROCE_DESTROY_AH, 0).Handle(UROCE_CREATE_CHANNEL, 0);
  script.Call(UROCE_ALLOC_MW, uroce_alloc_mw{0, IBV_MW_TYPE_2}).Handle(UROCE_DEALLOC_MW, 0);
  const uroce_mcast group{0, 0, {0xff, 0x15}};
  script.Call(UROCE_ATTACH_MCAST, group).Call(UROCE_DETACH_MCAST, group);
  script.Call(UROCE_CREATE_CQ, uroce_create_cq{0, 64, 7, 0, 0});
  script.Call(UROCE_RESIZE_CQ, uroce_resize_cq{0, 100}).Handle(UROCE_DESTROY_CQ, 2);
  script.Call(UROCE_MODIFY_CQ, uroce_modify_cq{0, 4, 100});
  for (uint32_t what = 1; what < 8; ++what) script.Call(UROCE_DUMP, uroce_dump{what, 0});
  script.Call(UROCE_CAPTURE, uroce_capture{"", 128, 0, 1 << 16}).Short(kTurns, 4, 1);
  script.Call(UROCE_HISTORY, uroce_history{kQpnOf, 0});
  for (const uint32_t handle : {0u, 1u}) script.Handle(UROCE_DESTROY_QP, handle);
  for (const uint32_t handle : {0u, 1u}) script.Handle(UROCE_DEREG_MR, handle);
  script.Call(UROCE_TRIM_SEGMENT, uroce_trim_segment{0, 0, 0x1000, 0x1000});
  script.Handle(UROCE_DESTROY_SEGMENT, 0).Handle(UROCE_DESTROY_CHANNEL, 0);
  return script.Handle(UROCE_CLOSE_CONTEXT, 0).bytes();
}

std::vector<uint8_t> SharedQueues() {
  Script script;
  script.Call(UROCE_CREATE_SRQ, uroce_create_srq{0, 8, 1, 1, 5, IBV_SRQT_BASIC, 0, 0, 0});
  script.Call(UROCE_MODIFY_SRQ, uroce_modify_srq{0, IBV_SRQ_MAX_WR, 32, 0});
  script.Handle(UROCE_QUERY_SRQ, 0);
  script.Call(UROCE_OPEN_XRCD, uroce_open_xrcd{0, UROCE_NONE, 0, 0});
  script.Call(UROCE_CREATE_SRQ, uroce_create_srq{0, 8, 1, 0, 6, IBV_SRQT_XRC, 0, 0, 0});
  script.Call(UROCE_CREATE_TARGET, uroce_create_target{0, 0, 7});
  script.Call(UROCE_OPEN_TARGET, uroce_open_target{0, kQpnOf + 2, 8});
  script.Call(UROCE_CREATE_QP,
              uroce_create_qp{0, IBV_QPT_XRC_SEND, 0, 0, 9, 0, {kDepth, 0, 2, 0, 64}});
  script.Handle(UROCE_QUERY_QP, 1u << 31).Handle(UROCE_DESTROY_QP, 1u << 31);
  return script.Handle(UROCE_DESTROY_SRQ, 1).Handle(UROCE_CLOSE_XRCD, 0).bytes();
}

std::vector<uint8_t> LentFiles() {
  Script script;
  for (uint32_t kind = 0; kind < 7; ++kind) {
    const uroce_lend file{UROCE_LEND_FILE, 1, kAddr, kAddr + kBytes, 0, kBytes};
    const uroce_lend domain{UROCE_LEND_XRC_FILE, 0, 0, 0, 0, 0};
    LendMemory(script, kind);
    for (const uroce_lend& lend : {file, domain}) {
      script.Short(kLend, kind, 1);
      std::vector<uint8_t> bytes(sizeof(lend));
      std::memcpy(bytes.data(), &lend, sizeof(lend));
      script.Then(bytes);
    }
  }
  return script.bytes();
}

/// The memory that it accesses belongs to no process.
std::vector<uint8_t> CopiesOfAnEndedProcess() {
  Script script;
  LendMemory(script, 5);
  RegisterCopied(script, 1);
  PostSend(script, 0, 0, {.opcode = IBV_WR_RDMA_WRITE}, 64, kKeyOf + 2);
  return script.Short(kTurns, 20, 1).bytes();
}

/// Regions of several parts, told in more than one message; of copied memory; of no memory; and one
/// that is reregistered.
std::vector<uint8_t> Regions() {
  constexpr uint64_t kPart = kBytes / 4;
  Script script;
  const uroce_lend memory{UROCE_LEND_MEMORY, 1, 0, 0, 0, 0};
  std::vector<uint8_t> lend(sizeof(memory));
  std::memcpy(lend.data(), &memory, sizeof(memory));
  script.Short(kLend, 1, 1).Then(lend);
  struct {
    uroce_add_mr_segments request;
    uroce_mr_segment segments[2];
  } first{};
  first.request = {0, 2};
  first.segments[0] = {kAddr, kPart, UROCE_MR_MAPPED, 0, 0, 0, 0};
  first.segments[1] = {kAddr + kPart, kPart, UROCE_MR_MAPPED, 0, kPart, 0, 0};
  script.Call(UROCE_ADD_MR_SEGMENTS, first);
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segments[2];
  } rest{};
  rest.request = {0, kAllAccess, kAddr, kBytes, kAddr, 4, UROCE_NONE};
  rest.segments[0] = {kAddr + 2 * kPart, kPart, UROCE_MR_MAPPED, 0, 2 * kPart, 0, 0};
  rest.segments[1] = {kAddr + 3 * kPart, kPart, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0};
  script.Call(UROCE_REG_MR, rest);
  PostSend(script, 0, 0, {.opcode = IBV_WR_RDMA_WRITE}, 3000);
  script.Short(kTurns, 20, 1);
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } null{};
  null.request = {0, IBV_ACCESS_LOCAL_WRITE, 0, UINT64_MAX, 0, 1, UROCE_NONE};
  null.segment = {0, UINT64_MAX, UROCE_MR_NULL, UROCE_NONE, 0, 0, 0};
  script.Call(UROCE_REG_MR, null);
  rest.request.replaces = 2;
  script.Call(UROCE_ADD_MR_SEGMENTS, first).Call(UROCE_REG_MR, rest);
  const uroce_trim_segment trim{0, 0, kPart, kPart};
  return script.Handle(UROCE_DEREG_MR, 2).Call(UROCE_TRIM_SEGMENT, trim).bytes();
}

template <typename Body>
void WriteCm(Script& script, uint32_t number, const Body& body) {
  struct {
    uroce_write_cm where;
    rdma_ucm_cmd_hdr header;
    Body body;
  } message{};
  message.header = {number, sizeof(body), 512};
  message.body = body;
  script.Call(UROCE_WRITE_CM, message);
}

/// Two ids of one program that connect to each other.
std::vector<uint8_t> ConnectionManager() {
  constexpr uint16_t kPort = 0x2f1d;  // 7471, in network byte order.
  Script script;
  script.Call(UROCE_OPEN_CM);
  rdma_ucm_create_id create{};
  create.uid = 7;
  create.ps = RDMA_PS_TCP;
  create.qp_type = IBV_QPT_RC;
  rdma_ucm_bind bind{};
  bind.addr_size = sizeof(sockaddr_in);
  const sockaddr_in any{.sin_family = AF_INET, .sin_port = kPort, .sin_addr = {}, .sin_zero = {}};
  std::memcpy(&bind.addr, &any, sizeof(any));
  rdma_ucm_resolve_addr resolve{};
  resolve.timeout_ms = 1000;
  resolve.dst_size = sizeof(sockaddr_in);
  sockaddr_in peer = any;
  peer.sin_addr.s_addr = 0x0200000a;  // 10.0.0.2
  std::memcpy(&resolve.dst_addr, &peer, sizeof(peer));
  rdma_ucm_connect connect{};
  connect.conn_param.valid = 1;
  connect.conn_param.qp_num = kQpnOf;
  bind.id = 0;
  resolve.id = connect.id = 1;
  WriteCm(script, RDMA_USER_CM_CMD_CREATE_ID, create);
  WriteCm(script, RDMA_USER_CM_CMD_BIND, bind);
  WriteCm(script, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{0, 4});
  WriteCm(script, RDMA_USER_CM_CMD_CREATE_ID, create);
  WriteCm(script, RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve);
  WriteCm(script, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
  WriteCm(script, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{1, 1000});
  WriteCm(script, RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, 1, 0});
  WriteCm(script, RDMA_USER_CM_CMD_CONNECT, connect);
  script.Short(kTurns, 20, 1);
  WriteCm(script, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
  rdma_ucm_destroy_id destroy{};
  WriteCm(script, RDMA_USER_CM_CMD_DESTROY_ID, destroy);
  return script.Short(kWait, 20, 1).Call(UROCE_DUMP, uroce_dump{UROCE_DUMP_CM, 0}).bytes();
}

}  // namespace

uint32_t RingOfQueuePair(uint32_t qp) { return PageOfQueuePair(qp) + kPage; }

std::vector<uint8_t> MadeProgram() {
  Script script;
  script.Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  for (uint32_t device = 0; device < 2; ++device) {
    script.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0});
    script.Handle(UROCE_ALLOC_PD, device);
    script.Call(UROCE_CREATE_CQ, uroce_create_cq{device, 31, device, UROCE_NONE, 0});
  }
  for (uint32_t device = 0; device < 2; ++device) {
    script.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes});
    Register(script, device, device);
    script.Call(UROCE_CREATE_QP,
                uroce_create_qp{
                    device, IBV_QPT_RC, device, device, 9, 0, {kDepth - 1, kDepth - 1, 2, 2, 64}});
  }
  Connect(script, 0, 2, kQpnOf + 1);
  Connect(script, 1, 1, kQpnOf + 0);
  return script.bytes();
}

std::vector<std::vector<uint8_t>> GoodScripts() {
  std::vector<std::vector<uint8_t>> scripts = {
      AllOperations(), ErrorsAndRetries(),       Commands(), SharedQueues(),
      LentFiles(),     CopiesOfAnEndedProcess(), Regions(),  ConnectionManager()};
  for (std::vector<uint8_t>& script : ContextScripts()) scripts.push_back(std::move(script));
  return scripts;
}

}  // namespace uroce::fuzz
