// SPDX-License-Identifier: Apache-2.0
// Work requests as a worker copies them from the rings: their checks, their statement in terms of
// the transport, and their lists of memory.
#include "pipeline/datapath/queue/work_request.h"

#include <algorithm>
#include <cstring>

#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {

namespace {

uint32_t Stride(const rings::WqeLimits& limits) {
  constexpr uint32_t kSgeBytes = sizeof(uroce_sge);
  constexpr uint32_t kBindBytes = sizeof(BindRequest);
  const uint32_t bytes =
      std::max({limits.max_sge * kSgeBytes, limits.max_inline_bytes, kBindBytes});
  return (bytes + kSgeBytes - 1) / kSgeBytes * kSgeBytes;  // This keeps every list aligned.
}

}  // namespace

SendLists::SendLists(uint32_t held_works, const rings::WqeLimits& limits)
    : mask_(held_works - 1),
      stride_(Stride(limits)),
      entries_(std::make_unique<Entry[]>(held_works)),
      bytes_(std::make_unique<uint8_t[]>(size_t{held_works} * stride_)) {}

void SendLists::Store(uint32_t slot, const rings::SendWqe& wqe) {
  Entry& entry = entries_[slot & mask_];
  if (wqe.is_inline()) {
    entry = {.num_sge = 0, .inline_length = static_cast<uint16_t>(wqe.header.inline_length)};
    memcpy(Place(slot), wqe.inline_data, wqe.header.inline_length);
    return;
  }
  entry = {.num_sge = wqe.header.num_sge, .inline_length = 0};
  memcpy(Place(slot), wqe.sges, wqe.header.num_sge * sizeof(uroce_sge));
}

std::span<const uroce_sge> SendLists::List(uint32_t slot) const {
  return {reinterpret_cast<const uroce_sge*>(Place(slot)), entries_[slot & mask_].num_sge};
}

std::span<const uint8_t> SendLists::InlineBytes(uint32_t slot) const {
  return {Place(slot), entries_[slot & mask_].inline_length};
}

void SendLists::StoreBind(uint32_t slot, const BindRequest& request) {
  StoreNothing(slot);
  memcpy(Place(slot), &request, sizeof(request));
}

BindRequest SendLists::Bind(uint32_t slot) const {
  BindRequest request;
  memcpy(&request, Place(slot), sizeof(request));
  return request;
}

void ReceiveList::Store(uint32_t slot, std::span<const uroce_sge> list) {
  slot_ = slot;
  count_ = static_cast<uint32_t>(list.size());
  std::ranges::copy(list, list_.get());
}

// Which work requests are valid (docs/protocol/transport.md, sections 8 and 12).

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
  if (!IsKnown(opcode)) return false;
  if (wqe.is_inline() && !MayBeInline(opcode)) return false;
  if (transport::IsLocal(opcode)) return length == 0;
  // The responder checks that an atomic's remote address is aligned, and answers NAK 0x61.
  return !IsAtomic(opcode) || length >= sizeof(uint64_t);
}

/// The length of a work that can be executed. One byte beyond a message stands for all that is too
/// long. An ATOMIC WRITE takes the first eight bytes of a longer list.
uint32_t LengthOf(WorkOpcode opcode, uint64_t length) {
  constexpr uint64_t kAtomicBytes = sizeof(uint64_t);
  if (opcode == WorkOpcode::kAtomicWrite) return kAtomicBytes;
  const uint64_t most = IsAtomic(opcode) ? kAtomicBytes : transport::kMaxMessageBytes;
  return length <= most ? static_cast<uint32_t>(length) : transport::kMaxMessageBytes + 1;
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
  work.length_bytes = LengthOf(work.opcode, length);
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
