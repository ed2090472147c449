// SPDX-License-Identifier: Apache-2.0
// Says which work requests are valid (docs/protocol/transport.md, sections 8 and 12).
#include "pipeline/datapath/queue/work_check.h"

#include <algorithm>

#include "pipeline/transport/path_mtu.h"

namespace uroce::datapath {
namespace {

using transport::WorkOpcode;

bool IsAtomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd ||
         opcode == WorkOpcode::kAtomicWrite;
}

bool MayBeInline(WorkOpcode opcode) {
  return opcode <= WorkOpcode::kSendWithImm || opcode == WorkOpcode::kSendWithInvalidate ||
         opcode == WorkOpcode::kAtomicWrite;
}

uint64_t Sum(const uroce_sge* list, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += list[i].length;
  return sum;
}

bool CanExecute(WorkOpcode opcode, const rings::SendWqe& wqe, uint64_t length) {
  if (!IsKnown(opcode) || length > transport::kMaxMessageBytes) return false;
  if (wqe.is_inline() && !MayBeInline(opcode)) return false;
  if (transport::IsLocal(opcode)) return length == 0;
  // The responder checks that an atomic's remote address is aligned, and answers NAK 0x61.
  return !IsAtomic(opcode) || length >= sizeof(uint64_t);
}

}  // namespace

transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service) {
  const uroce_send_wqe& header = wqe.header;
  transport::SendWork work;
  work.wr_id = header.wr_id;
  work.slot = slot;
  work.opcode = static_cast<WorkOpcode>(header.opcode);
  work.signaled = (header.flags & UROCE_SEND_SIGNALED) != 0;
  work.solicited = (header.flags & UROCE_SEND_SOLICITED) != 0;
  work.fence = (header.flags & UROCE_SEND_FENCE) != 0;
  if (!IsKnown(work.opcode)) work.opcode = WorkOpcode::kSend;  // Any known opcode will do.
  if (read != rings::WqeResult::kOk) {
    work.malformed = true;
    return work;
  }
  const uint64_t length = wqe.is_inline() ? header.inline_length : Sum(wqe.sges, header.num_sge);
  work.malformed = !CanExecute(static_cast<WorkOpcode>(header.opcode), wqe, length);
  if (work.malformed) return work;
  work.length_bytes = IsAtomic(work.opcode) ? sizeof(uint64_t) : static_cast<uint32_t>(length);
  work.immediate = header.imm_or_rkey;
  work.invalidate_rkey = Rkey(header.imm_or_rkey);
  if (service == wire::Service::kUd) {
    work.path = header.datagram.ah;
    work.remote_qpn = Qpn(header.datagram.remote_qpn);
    work.remote_qkey = header.datagram.remote_qkey;
    return work;
  }
  constexpr uint32_t kNumberMask = 0xffffff;
  work.xrc_srqn = header.xrc_srqn & kNumberMask;
  work.rkey = Rkey(header.rkey);
  work.remote_va = header.remote_addr;
  work.compare_add = header.atomic.compare_add;
  work.swap = header.atomic.swap;
  return work;
}

BindRequest ToBindRequest(const uroce_send_wqe& header) {
  return {.addr = header.remote_addr,
          .length_bytes = header.bind.length,
          .window_key = header.imm_or_rkey,
          .new_key = header.rkey,
          .region_key = header.bind.lkey,
          .access = header.bind.access};
}

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot) {
  transport::ReceiveWork work;
  work.wr_id = wqe.header.wr_id;
  work.slot = slot;
  work.malformed = read != rings::WqeResult::kOk;
  if (work.malformed) return work;
  const uint64_t room = Sum(wqe.sges, wqe.header.num_sge);
  // More room than any message needs is no error, but the field cannot hold it.
  work.length_bytes = static_cast<uint32_t>(std::min<uint64_t>(room, transport::kMaxMessageBytes));
  return work;
}

}  // namespace uroce::datapath
