// SPDX-License-Identifier: Apache-2.0
// ibv_cq_ex: programs read one completion at a time, field by field. The lock is held from
// start_poll
// end_poll.
#include "verbs-shim/objects.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

void Show(CompletionQueue& cq) {
  cq.verbs.wr_id = cq.current.wr_id;
  cq.verbs.status = static_cast<ibv_wc_status>(cq.current.status);
}

int StartPollEx(ibv_cq_ex* base, ibv_poll_cq_attr* attributes) {
  CompletionQueue& cq = *Ours(base);
  if (attributes->comp_mask != 0) return EINVAL;
  if (cq.connection->state() == ConnectionState::kForked) return EIO;
  const int error = StartPoll(cq);
  if (error == 0) Show(cq);
  return error;
}

int NextPoll(ibv_cq_ex* base) {
  CompletionQueue& cq = *Ours(base);
  if (!TakeCompletion(cq)) return ENOENT;
  Show(cq);
  return 0;
}

void EndPoll(ibv_cq_ex* base) { FinishPoll(*Ours(base)); }

ibv_wc_opcode ReadOpcode(ibv_cq_ex* cq) {
  return static_cast<ibv_wc_opcode>(Ours(cq)->current.opcode);
}
uint32_t ReadVendorError(ibv_cq_ex* cq) { return Ours(cq)->current.vendor_err; }
uint32_t ReadByteLength(ibv_cq_ex* cq) { return Ours(cq)->current.byte_len; }
__be32 ReadImmediate(ibv_cq_ex* cq) { return Ours(cq)->current.imm_or_rkey; }
uint32_t ReadQpNumber(ibv_cq_ex* cq) { return Ours(cq)->current.qp_num; }
uint32_t ReadSourceQp(ibv_cq_ex* cq) { return Ours(cq)->current.src_qp; }
unsigned ReadFlags(ibv_cq_ex* cq) { return Ours(cq)->current.wc_flags; }
uint32_t ReadSlid(ibv_cq_ex*) { return 0; }
uint8_t ReadSl(ibv_cq_ex* cq) { return Ours(cq)->current.sl; }
uint8_t ReadPathBits(ibv_cq_ex*) { return 0; }
uint64_t ReadTime(ibv_cq_ex* cq) { return Ours(cq)->current.time_ns; }
uint64_t ReadWallTime(ibv_cq_ex* cq) {
  return ReadTime(cq) + (ClockNs(CLOCK_REALTIME) - ClockNs(CLOCK_MONOTONIC));
}
// For capabilities that the creation of a CQ refuses, so no correct program calls it.
uint16_t ReadNoVlan(ibv_cq_ex*) { return 0; }
uint32_t ReadNoFlowTag(ibv_cq_ex*) { return 0; }
void ReadNoTagInfo(ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; }

}  // namespace

void FillCqEx(ibv_cq_ex& cq) {
  cq.start_poll = &StartPollEx;
  cq.next_poll = &NextPoll;
  cq.end_poll = &EndPoll;
  cq.read_opcode = &ReadOpcode;
  cq.read_vendor_err = &ReadVendorError;
  cq.read_byte_len = &ReadByteLength;
  cq.read_imm_data = &ReadImmediate;
  cq.read_qp_num = &ReadQpNumber;
  cq.read_src_qp = &ReadSourceQp;
  cq.read_wc_flags = &ReadFlags;
  cq.read_slid = &ReadSlid;
  cq.read_sl = &ReadSl;
  cq.read_dlid_path_bits = &ReadPathBits;
  cq.read_completion_ts = &ReadTime;
  cq.read_cvlan = &ReadNoVlan;
  cq.read_flow_tag = &ReadNoFlowTag;
  cq.read_tm_info = &ReadNoTagInfo;
  cq.read_completion_wallclock_ns = &ReadWallTime;
}

}  // namespace uroce::shim
