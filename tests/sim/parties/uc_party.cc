// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/uc_party.h"

#include <algorithm>
#include <cstring>

namespace uroce::sim {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::WcStatus;
using transport::WorkOpcode;

UcParty::UcParty(uint32_t host, const transport::UnreliableConfig& config,
                 const transport::QueuePairAttributes& attributes, RemoteMemory& memory,
                 ReceivePool& pool, const Path& path, const NetworkFaults& faults, uint64_t seed)
    : UnreliableParty(host, config, attributes, pool, seed),
      memory_(memory),
      path_(path),
      faults_(faults) {
  const auto data = memory.At(RemoteMemory::kBase, memory.size_bytes());
  initial_.assign(data.begin(), data.end());
  written_.resize(data.size());
}

void UcParty::Plan(uint32_t count, UcParty& peer) {
  peer_ = &peer;
  for (uint32_t i = 0; i < count; ++i) messages().push_back(PlanMessage(i));
  messages().back().work.signaled = true;
}

Message UcParty::PlanMessage(uint32_t index) {
  Message message;
  transport::SendWork& work = message.work;
  const uint32_t mtu = attributes_.path_mtu_bytes;
  work.opcode = random_.OneOf(
      {WorkOpcode::kWrite, WorkOpcode::kWriteWithImm, WorkOpcode::kSend, WorkOpcode::kSendWithImm});
  work.signaled = random_.Happens(700);
  work.solicited = random_.Happens(300);
  work.immediate = index;
  work.length_bytes = 8 + random_.OneOf<uint32_t>({0, 56, mtu - 8, mtu - 7, 3 * mtu + 1});
  work.rkey = peer_->memory_.rkey();
  work.remote_va = next_va_;
  // When no unwritten bytes are left, a SEND replaces the WRITE.
  const uint64_t end = RemoteMemory::kBase + peer_->memory_.size_bytes();
  if (next_va_ + work.length_bytes > end) work.opcode = WorkOpcode::kSend;
  if (work.opcode == WorkOpcode::kWrite || work.opcode == WorkOpcode::kWriteWithImm) {
    next_va_ += work.length_bytes;
  }
  message.bytes = BytesOf(work.rkey.value(), index, work.length_bytes);
  if (random_.Happens(30)) {
    message.gather_fails = true;
    message.failure = WcStatus::kLocProtErr;
  } else if (random_.Happens(20)) {
    work.opcode = WorkOpcode::kRead;
    message.failure = WcStatus::kLocQpOpErr;
  }
  return message;
}

void UcParty::OnFrame(const ReceivedFrame& frame, Nanos) {
  const Effect effect = Give(frame.packet);
  EffectOutcome outcome = EffectOutcome::kDone;
  switch (effect.kind) {
    case Effect::Kind::kNone:
      return;
    case Effect::Kind::kPlaceReceive:
      PlaceReceive(effect.local, frame.packet.payload);
      break;
    case Effect::Kind::kPlaceRemote:
      if (!memory_.Allows(effect.remote.rkey, effect.remote.va, effect.check_length_bytes)) {
        outcome = EffectOutcome::kRemoteAccess;
        Fault("a WRITE outside of its memory");
      } else if (!WriteOnce(effect.remote.va, frame.packet.payload) && !faults_.reorders()) {
        Fault("a WRITE was executed twice");
      }
      break;
    default:
      return Fault("an effect that this service does not know");
  }
  qp_.OnEffectDone(outcome);
}

void UcParty::OnReceived(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return Fault("a receive work failed");
  const bool is_write = completion.opcode == transport::WcOpcode::kReceiveWriteWithImm;
  const std::vector<uint8_t>& buffer = pool_.Buffer(completion.slot);
  uint32_t index = completion.immediate_or_rkey;
  if (!is_write) std::memcpy(&index, buffer.data(), sizeof index);
  if (index >= peer_->posted()) return Fault("a message that was not sent");
  Message& message = peer_->messages()[index];
  const bool whole =
      is_write ? Holds(message, message.work.remote_va)
               : std::ranges::equal(message.bytes, std::span(buffer).first(message.bytes.size()));
  if (completion.length_bytes != message.bytes.size() || !whole) Fault("a message is not whole");
  if (completion.solicited != message.work.solicited) Fault("solicited where it was not asked for");
  if (index < next_index_ && !faults_.reorders()) Fault("messages out of order");
  next_index_ = index + 1;
  if (++message.received > 1 && !faults_.reorders()) Fault("a message came twice");
}

bool UcParty::WriteOnce(uint64_t va, std::span<const uint8_t> data) {
  if (data.empty()) return true;
  memory_.Write(va, data);
  uint8_t* const marks = &written_[va - RemoteMemory::kBase];
  const bool once = std::memchr(marks, 1, data.size()) == nullptr;
  std::memset(marks, 1, data.size());
  return once;
}

bool UcParty::Holds(const Message& message, uint64_t va) const {
  return std::ranges::equal(memory_.At(va, static_cast<uint32_t>(message.bytes.size())),
                            message.bytes);
}

void UcParty::Judge() {
  const bool lossless =
      !faults_.loses() && !faults_.reorders() && !dead() && pool_.next_refill() == kNever;
  for (const Message& message : peer_->messages()) {
    const WorkOpcode opcode = message.work.opcode;
    const auto size = static_cast<uint32_t>(message.bytes.size());
    // The dead host can no longer say what it had sent.
    const bool failed = !message.sent && !peer_->dead();
    if (message.received != 0 && failed) Fault("a message that had failed was received");
    const bool comes = message.sent && opcode != WorkOpcode::kWrite;
    if (lossless && comes && message.received != 1) Fault("a message was lost without a reason");
    if (opcode != WorkOpcode::kWrite && opcode != WorkOpcode::kWriteWithImm) continue;
    // A lost WRITE may have left some of its packets in memory.
    const uint64_t va = message.work.remote_va;
    const auto now = memory_.At(va, size);
    if (std::ranges::equal(now, message.bytes)) continue;
    for (uint32_t i = 0; i < size; ++i) {
      if (now[i] != message.bytes[i] && now[i] != initial_[va - RemoteMemory::kBase + i]) {
        return Fault("memory has bytes that no peer wrote");
      }
    }
  }
}

}  // namespace uroce::sim
