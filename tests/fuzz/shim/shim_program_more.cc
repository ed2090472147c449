// SPDX-License-Identifier: Apache-2.0
// The calls of the program other than those on queues.
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <cstring>

#include "tests/fuzz/shim/guarded_output.h"
#include "tests/fuzz/shim/shim_program.h"
#include "verbs-shim/cm_commands.h"

namespace uroce::fuzz {

void ShimProgram::RegMr(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  const uint32_t offset = reader.Number(2);
  const uint32_t length = reader.Number(2);
  const auto access = static_cast<int>(reader.Number(1));
  if (pd == nullptr || !HasRoom(Kind::kMr) || offset + length > kMemoryBytes) return;
  Hold(Kind::kMr, ibv_reg_mr(pd, Memory() + offset, length, access), {pd, pd->context});
}

void ShimProgram::ReregMr(ScriptReader& reader) {
  auto* mr = Pick<ibv_mr>(Kind::kMr, reader.Number(1));
  const uint32_t length = reader.Number(2);
  if (mr == nullptr || length > kMemoryBytes) return;
  const int result =
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, Memory(), length, 0);
  Expect(result == 0 || errno > 0, "no error");
}

void ShimProgram::QueryPort(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  if (context == nullptr) return;
  GuardedOutput<ibv_port_attr> port;
  GuardedOutput<ibv_device_attr_ex> device;
  ExpectErrno(ibv_query_port(context, 1, port.data()));
  ExpectErrno(ibv_query_device_ex(context, nullptr, device.data()));
  Expect(port.IsIntact() && device.IsIntact(), "written beyond its output");
}

void ShimProgram::QueryGids(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  const uint32_t room = reader.Number(1) % 40;
  if (context == nullptr) return;
  GuardedOutput<ibv_gid_entry> table(room);
  const ssize_t count = ibv_query_gid_table(context, table.data(), room, 0);
  Expect(count <= static_cast<ssize_t>(room) && count >= -kGreatestErrno,
         "more than there is room for");
  GuardedOutput<ibv_gid> gid;
  ExpectMinusOne(ibv_query_gid(context, 1, static_cast<int>(room), gid.data()));
  Expect(table.IsIntact() && gid.IsIntact(), "written beyond its output");
}

void ShimProgram::CreateAh(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  ibv_ah_attr attr = {};
  attr.is_global = attr.port_num = 1;
  if (pd == nullptr || !HasRoom(Kind::kAh)) return;
  Hold(Kind::kAh, ibv_create_ah(pd, &attr), {pd, pd->context});
}

void ShimProgram::AhFromWc(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  ibv_wc wc = {};
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = static_cast<uint8_t>(reader.Number(1));
  ibv_grh grh = {};
  if (pd == nullptr || !HasRoom(Kind::kAh)) return;
  Hold(Kind::kAh, ibv_create_ah_from_wc(pd, &wc, &grh, 1), {pd, pd->context});
}

void ShimProgram::AllocMw(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  if (pd == nullptr || !HasRoom(Kind::kMw)) return;
  Hold(Kind::kMw, ibv_alloc_mw(pd, IBV_MW_TYPE_1), {pd, pd->context});
}

void ShimProgram::BindMw(ScriptReader& reader) {
  auto* mw = Pick<ibv_mw>(Kind::kMw, reader.Number(1));
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  ibv_mw_bind bind = {};
  bind.bind_info.mr = Pick<ibv_mr>(Kind::kMr, reader.Number(1));
  if (mw == nullptr || qp == nullptr || qp->qp_type == IBV_QPT_XRC_RECV) return;
  ExpectErrno(ibv_bind_mw(qp, mw, &bind));
}

void ShimProgram::Multicast(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  const ibv_gid gid = {{0xff}};
  if (qp == nullptr) return;
  ExpectErrno(ibv_attach_mcast(qp, &gid, 0));
  ExpectErrno(ibv_detach_mcast(qp, &gid, 0));
}

void ShimProgram::OpenXrcd(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  ibv_xrcd_init_attr attr = {};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = reader.Number(1) % 2 == 0 ? -1 : 0;
  attr.oflags = O_CREAT;
  if (context == nullptr || !HasRoom(Kind::kXrcd)) return;
  Hold(Kind::kXrcd, ibv_open_xrcd(context, &attr), {context});
}

void ShimProgram::CreateXrcSrq(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  ibv_srq_init_attr_ex attr = {};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = pd;
  attr.xrcd = Pick<ibv_xrcd>(Kind::kXrcd, reader.Number(1));
  attr.cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  attr.attr = {reader.Number(1) + 1, 1, 0};
  if (pd == nullptr || !HasRoom(Kind::kSrq)) return;
  Hold(Kind::kSrq, ibv_create_srq_ex(pd->context, &attr), {pd, attr.xrcd, attr.cq, pd->context});
}

void ShimProgram::CreateTarget(ScriptReader& reader) {
  auto* xrcd = Pick<ibv_xrcd>(Kind::kXrcd, reader.Number(1));
  ibv_qp_init_attr_ex attr = {};
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.xrcd = xrcd;
  if (xrcd == nullptr || !HasRoom(Kind::kQp)) return;
  Hold(Kind::kQp, ibv_create_qp_ex(xrcd->context, &attr), {xrcd, xrcd->context});
}

void ShimProgram::OpenTarget(ScriptReader& reader) {
  auto* xrcd = Pick<ibv_xrcd>(Kind::kXrcd, reader.Number(1));
  ibv_qp_open_attr attr = {};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = reader.Number(3);
  attr.xrcd = xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  if (xrcd == nullptr || !HasRoom(Kind::kQp)) return;
  Hold(Kind::kQp, ibv_open_qp(xrcd->context, &attr), {xrcd, xrcd->context});
}

void ShimProgram::Import(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  const uint32_t handle = reader.Number(1);
  if (context == nullptr || !HasRoom(Kind::kImportedPd)) return;
  ibv_pd* pd = ibv_import_pd(context, handle);
  Hold(Kind::kImportedPd, pd, {context});
  if (pd == nullptr) return;
  ibv_mr* mr = ibv_import_mr(pd, handle);
  if (mr != nullptr) ibv_unimport_mr(mr);
}

void ShimProgram::OpenCm(ScriptReader&) {
  if (!HasRoom(Kind::kCmFile)) return;
  const int fd = shim::OpenCm(O_NONBLOCK | O_CLOEXEC);
  Expect(fd >= 0 || fd == shim::kNotOurs || errno > 0, "no error");
  if (fd >= 0) Hold(Kind::kCmFile, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), {});
}

// The pointers in a command must be the program's own, whatever else the script writes to it.
void ShimProgram::WriteCm(ScriptReader& reader) {
  const auto fd =
      static_cast<int>(reinterpret_cast<intptr_t>(Pick<void>(Kind::kCmFile, reader.Number(1))));
  struct {
    rdma_ucm_cmd_hdr header;
    uint8_t body[sizeof(rdma_ucm_connect)];
  } command = {};
  command.header.cmd = reader.Number(1) % (RDMA_USER_CM_CMD_JOIN_MCAST + 1);
  command.header.out = static_cast<uint16_t>(reader.Number(2) % 2048);
  command.header.in = sizeof(command.body);
  const uint32_t id = reader.Number(2);
  shim::CmFile file;
  if (fd == 0 || !shim::CmFiles::Find(fd, &file)) return;
  GuardedOutput<uint8_t> answer(command.header.out);
  const auto response = reinterpret_cast<uintptr_t>(answer.data());
  if (command.header.cmd == RDMA_USER_CM_CMD_CREATE_ID) {
    const rdma_ucm_create_id create = {id, response, RDMA_PS_TCP, 2, {}};
    std::memcpy(command.body, &create, sizeof(create));
  } else if (command.header.cmd == RDMA_USER_CM_CMD_SET_OPTION) {
    const rdma_ucm_set_option option = {reinterpret_cast<uintptr_t>(Memory()), id, 0, 0, 8};
    std::memcpy(command.body, &option, sizeof(option));
  } else {
    std::memcpy(command.body, &response, sizeof(response));
    std::memcpy(command.body + sizeof(response), &id, sizeof(id));
  }
  const ssize_t written = shim::WriteCm(file, fd, &command, sizeof(command));
  Expect(written == sizeof(command) || (written == -1 && errno > 0 && errno <= kGreatestErrno),
         "a failure without an error");
  Expect(answer.IsIntact(), "written beyond its output");
}

}  // namespace uroce::fuzz
