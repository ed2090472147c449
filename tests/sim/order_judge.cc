// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/order_judge.h"

#include <algorithm>
#include <cstring>

#include "pipeline/wire/packet.h"

namespace uroce::sim {
namespace {

using transport::WorkOpcode;

bool IsAnyWrite(WorkOpcode opcode) {
  return opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteWithImm ||
         opcode == WorkOpcode::kAtomicWrite;
}

bool IsSend(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendWithImm ||
         opcode == WorkOpcode::kSendWithInvalidate;
}

bool IsAtomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd;
}

std::string Request(uint32_t work) { return "request " + std::to_string(work); }

}  // namespace

OrderJudge::OrderJudge(const Workload& plan, wire::Psn first, uint32_t path_mtu)
    : plan_(plan), first_(first), mtu_(path_mtu) {
  uint32_t psns = 0;
  for (const PlannedWork& planned : plan.works) {
    const transport::SendWork& work = planned.work;
    const bool local = transport::IsLocal(work.opcode);
    const uint32_t packets = local ? 0 : mtu_.PacketsOf(work.length_bytes);
    const bool silent = work.length_bytes == 0 && work.opcode != WorkOpcode::kSendWithInvalidate;
    runs_.push_back({.first = psns, .packets = packets, .silent = local || silent});
    psns += packets;
  }
  Advance(0);
}

uint32_t OrderJudge::IndexOf(wire::Psn psn) const {
  // A packet far before the first one counts as executed long ago.
  return static_cast<uint32_t>(std::max(psn.Since(first_), 0));
}

uint32_t OrderJudge::WorkOf(uint32_t index) const {
  const auto behind = std::ranges::upper_bound(runs_, index, {}, &Run::first);
  return static_cast<uint32_t>(behind - runs_.begin()) - 1;
}

std::string OrderJudge::CheckTurn(uint32_t index) const {
  if (index == next_ && work_ != runs_.size()) return "";
  if (index < next_) return Request(WorkOf(index)) + " executed twice";
  const uint32_t work = WorkOf(index);
  if (work == work_) return "a packet out of order within " + Request(work);
  return "a byte of " + Request(work) + " before the end of " + Request(work_);
}

std::string OrderJudge::CheckMessage(uint32_t index, std::span<const uint8_t> payload) const {
  if (std::string fault = CheckTurn(index); !fault.empty()) return fault;
  const uint32_t offset = OffsetInWork(index);
  const uint32_t length = mtu_.Take(work().work.length_bytes - offset);
  const bool same =
      payload.size() == length &&
      (length == 0 || std::memcmp(payload.data(), &work().local[offset], length) == 0);
  return same ? "" : "not its bytes in " + Request(work_);
}

std::string OrderJudge::OnPlaceRemote(const transport::RemoteRange& range,
                                      const wire::Packet& packet) {
  const uint32_t index = IndexOf(packet.header.psn);
  if (std::string fault = CheckMessage(index, packet.payload); !fault.empty()) return fault;
  const bool placed = IsAnyWrite(work().work.opcode) &&
                      range.va == work().work.remote_va + OffsetInWork(index) &&
                      range.length_bytes == packet.payload.size();
  if (!placed) return Request(work_) + " in the wrong place";
  Advance(1);
  return "";
}

std::string OrderJudge::OnPlaceReceive(const transport::LocalRange& local,
                                       const wire::Packet& packet) {
  const uint32_t index = IndexOf(packet.header.psn);
  if (std::string fault = CheckMessage(index, packet.payload); !fault.empty()) return fault;
  const uint32_t offset = OffsetInWork(index);
  if (offset == 0) receive_slot_ = local.slot;
  if (!IsSend(work().work.opcode) || local.offset_bytes != offset || local.slot != receive_slot_) {
    return Request(work_) + " in the wrong place of a receive work";
  }
  Advance(1);
  return "";
}

std::string OrderJudge::OnAtomic(const transport::RemoteRange& range, uint64_t original,
                                 const wire::Packet& packet) {
  if (std::string fault = CheckTurn(IndexOf(packet.header.psn)); !fault.empty()) return fault;
  if (!IsAtomic(work().work.opcode) || range.va != work().work.remote_va) {
    return Request(work_) + " in the wrong place";
  }
  if (std::memcmp(&original, work().expected.data(), 8) != 0) {
    return "the atomic of " + Request(work_) + " saw what was never there";
  }
  Advance(1);
  return "";
}

std::string OrderJudge::OnRead(const wire::Packet& packet) {
  const uint32_t index = IndexOf(packet.header.psn);
  if (index < next_) return "";  // A response to be sent again.
  if (std::string fault = CheckTurn(index); !fault.empty()) return fault;
  if (work().work.opcode != WorkOpcode::kRead) return Request(work_) + " executed as a READ";
  Advance(runs_[work_].packets);
  return "";
}

std::string OrderJudge::OnAnswer(const transport::TxPacket& packet) const {
  const wire::TransportHeader& header = packet.header;
  const uint32_t index = IndexOf(header.psn);
  const wire::Opcode operation = wire::OperationOf(header.opcode);
  if (operation != wire::Opcode::kAcknowledge) return CheckAnswerTo(index, packet);
  // A NAK and a selective acknowledgement name a missing PSN; an ACK names a PSN that has arrived.
  const bool is_ack = (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck &&
                      !wire::IsOfManufacturer(header.opcode);
  // Before its first request a responder may acknowledge the PSN before that request.
  const bool executed = header.psn.Since(first_) < 0 || index + is_ack <= next_;
  return executed ? "" : "an answer to " + Request(WorkOf(index)) + " before it was executed";
}

std::string OrderJudge::CheckAnswerTo(uint32_t index, const transport::TxPacket& packet) const {
  const uint32_t number = WorkOf(index);
  if (index >= next_) return "an answer to " + Request(number) + " before it was executed";
  const PlannedWork& planned = plan_.works[number];
  if (wire::OperationOf(packet.header.opcode) == wire::Opcode::kAtomicAcknowledge) {
    const bool same = IsAtomic(planned.work.opcode) &&
                      std::memcmp(&packet.header.atomic_original, planned.expected.data(), 8) == 0;
    return same ? "" : "the answer to " + Request(number) + " is not what it found";
  }
  if (packet.payload_source != transport::TxPacket::Source::kRemote) return "";
  const uint32_t offset = mtu_.OffsetOf(index - runs_[number].first);
  const bool same = planned.work.opcode == WorkOpcode::kRead &&
                    packet.remote.va == planned.work.remote_va + offset &&
                    packet.remote.length_bytes == mtu_.Take(planned.work.length_bytes - offset);
  return same ? "" : "the answer to " + Request(number) + " is from the wrong place";
}

void OrderJudge::Advance(uint32_t packets) {
  next_ += packets;
  while (work_ != runs_.size()) {
    const Run& run = runs_[work_];
    if (run.silent) next_ = std::max(next_, run.first + run.packets);
    if (next_ < run.first + run.packets) return;
    ++work_;
  }
}

}  // namespace uroce::sim
