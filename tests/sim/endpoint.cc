// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/endpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "pipeline/wire/to_string.h"

namespace uroce::sim {
namespace {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::TxPacket;
using transport::WcStatus;
using transport::WorkOpcode;

constexpr uint32_t kBurst = 32;
constexpr uint32_t kReceiveBytes = 24'000;
constexpr Nanos kTurnPause{1'000};

}  // namespace

Endpoint::Endpoint(const transport::RcConfig& config, RemoteMemory& memory, uint64_t seed)
    : qp_(config), memory_(memory), random_(seed), signal_all_(config.signal_all) {}

void Endpoint::Connect(const transport::RcAttributes& attributes) {
  qp_.Modify(transport::QpState::kInit, attributes);
  qp_.Modify(transport::QpState::kRtr, attributes);
  qp_.Modify(transport::QpState::kRts, attributes);
}

void Endpoint::SetWorkload(const Workload* own, const Workload* peers) {
  plan_ = own;
  peers_plan_ = peers;
  for (const PlannedWork& planned : own->works) local_.push_back(planned.local);
}

bool Endpoint::finished() const {
  return next_completion_ == plan_->works.size() && received_ == peers_plan_->receives.size();
}

Nanos Endpoint::Turn(Nanos now, Link& in, Link& out) {
  if (qp_.NextDeadline() <= now) qp_.OnDeadline(now);
  RefillReceives(now);
  for (uint32_t i = 0; i < kBurst; ++i) {
    const auto frame = in.Take(now);
    if (!frame) break;
    OnFrame(*frame, now);
  }
  PollCompletions();
  PostWorks();
  SendPackets(now, out);
  PollCompletions();
  Nanos next = std::min(qp_.NextDeadline(), in.NextArrival());
  if (next_refill_ > now && received_ != peers_plan_->receives.size()) {
    next = std::min(next, next_refill_);
  }
  const bool more = qp_.HasPacket(now) || (posted_ != plan_->works.size() && qp_.post_room() != 0);
  return std::max(more ? std::min(next, now + kTurnPause) : next, now + Nanos(1));
}

void Endpoint::PostWorks() {
  // In clumps, so that the queue is sometimes empty and sometimes full.
  while (posted_ != plan_->works.size() && qp_.post_room() != 0 && !random_.Happens(200)) {
    if (qp_.Post(plan_->works[posted_].work) != transport::PostResult::kPosted) {
      return Fault("post refused in spite of room");
    }
    ++posted_;
  }
}

void Endpoint::RefillReceives(Nanos now) {
  // Late on purpose: the peer meets RNR NAKs.
  if (now < next_refill_) return;
  const uint32_t count = 1 + random_.Below(8);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t slot = static_cast<uint32_t>(receive_buffers_.size());
    receive_buffers_.emplace_back(kReceiveBytes);
    receive_queue_.push_back({.wr_id = slot, .slot = slot, .length_bytes = kReceiveBytes});
  }
  next_refill_ = now + Nanos(random_.Below(400'000));
}

void Endpoint::OnFrame(const Frame& frame, Nanos now) {
  wire::Packet packet;
  packet.header = frame.header;
  packet.payload = frame.payload;
  if (qp_.NeedsReceive(packet.header) && !receive_queue_.empty()) {
    qp_.PostReceive(receive_queue_.front());
    receive_queue_.pop_front();
  }
  Effect effect;
  const transport::PacketResult result = qp_.OnPacket(packet, now, effect);
  if (result == transport::PacketResult::kNak || result == transport::PacketResult::kMalformed) {
    Fault("refused " + wire::ToString(packet));
  }
  if (effect.kind == Effect::Kind::kNone) return;
  uint64_t original = 0;
  const EffectOutcome outcome = Execute(effect, frame, original);
  if (outcome != EffectOutcome::kDone) Fault("effect failed of " + wire::ToString(packet));
  qp_.OnEffectDone(outcome, original, now);
}

EffectOutcome Endpoint::Execute(const Effect& effect, const Frame& frame, uint64_t& original) {
  const transport::LocalRange& local = effect.local;
  switch (effect.kind) {
    case Effect::Kind::kPlaceReceive: {
      std::vector<uint8_t>& buffer = receive_buffers_[local.slot];
      if (local.offset_bytes + frame.payload.size() > buffer.size()) {
        return EffectOutcome::kLocalProtection;
      }
      std::copy(frame.payload.begin(), frame.payload.end(), buffer.begin() + local.offset_bytes);
      if (effect.invalidate) invalidated_.push_back(effect.invalidate_rkey.value());
      return EffectOutcome::kDone;
    }
    case Effect::Kind::kInvalidate:
      invalidated_.push_back(effect.invalidate_rkey.value());
      return EffectOutcome::kDone;
    case Effect::Kind::kPlaceSend:
    case Effect::Kind::kPlaceOriginal: {
      std::vector<uint8_t>& buffer = local_[local.slot];
      const bool is_read = effect.kind == Effect::Kind::kPlaceSend;
      const void* source = is_read ? static_cast<const void*>(frame.payload.data()) : &effect.value;
      if (!qp_.Holds(local.slot)) Fault("placement into a work that is not held");
      if (local.offset_bytes + local.length_bytes > buffer.size()) {
        return EffectOutcome::kLocalProtection;
      }
      std::memcpy(buffer.data() + local.offset_bytes, source, local.length_bytes);
      return EffectOutcome::kDone;
    }
    default:
      return ExecuteRemote(effect, frame, original);
  }
}

EffectOutcome Endpoint::ExecuteRemote(const Effect& effect, const Frame& frame,
                                      uint64_t& original) {
  const transport::RemoteRange& remote = effect.remote;
  if (!memory_.Allows(remote.rkey, remote.va, effect.check_length_bytes)) {
    return EffectOutcome::kRemoteAccess;
  }
  if (effect.kind == Effect::Kind::kPlaceRemote && !memory_.Write(remote.va, frame.payload)) {
    Fault("a WRITE was executed twice");
  }
  if (effect.kind != Effect::Kind::kAtomic) return EffectOutcome::kDone;
  original = memory_.Load(remote.va);
  if (!effect.compare_swap) memory_.Store(remote.va, original + effect.swap_add);
  if (effect.compare_swap && original == effect.compare) memory_.Store(remote.va, effect.swap_add);
  return EffectOutcome::kDone;
}

void Endpoint::SendPackets(Nanos now, Link& out) {
  // Sometimes a scheduler gives less than one wants.
  const uint32_t budget = random_.Happens(200) ? random_.Below(4) : kBurst;
  TxPacket packet;
  for (uint32_t i = 0; i < budget; ++i) {
    const bool promised = qp_.HasPacket(now);
    if (!qp_.PollPacket(now, packet)) {
      if (promised) Fault("HasPacket promised a packet that did not come");
      return;
    }
    if (!promised) Fault("HasPacket denied a packet that came");
    out.Send(FrameOf(packet), now);
  }
}

Frame Endpoint::FrameOf(const TxPacket& packet) {
  Frame frame{.header = packet.header, .payload = {}};
  if (packet.source == TxPacket::Source::kSend) {
    const std::vector<uint8_t>& source = local_[packet.local.slot];
    const auto begin = source.begin() + packet.local.offset_bytes;
    if (!qp_.Holds(packet.local.slot)) Fault("packet of a work that is not held");
    frame.payload.assign(begin, begin + packet.local.length_bytes);
  } else if (packet.source == TxPacket::Source::kRemote) {
    const auto bytes = memory_.At(packet.remote.va, packet.remote.length_bytes);
    frame.payload.assign(bytes.begin(), bytes.end());
  }
  return frame;
}

void Endpoint::PollCompletions() {
  Completion completion;
  while (qp_.PollCompletion(completion)) {
    if (completion.status != WcStatus::kSuccess) {
      return Fault("completion in error, status " +
                   std::to_string(static_cast<int>(completion.status)));
    }
    if (completion.is_receive) {
      OnReceiveCompletion(completion);
    } else {
      OnSendCompletion(completion);
    }
  }
}

void Endpoint::OnSendCompletion(const Completion& completion) {
  if (completion.slot < next_completion_ || completion.slot >= posted_) {
    return Fault("send completion out of order");
  }
  for (; next_completion_ <= completion.slot; ++next_completion_) {
    const PlannedWork& planned = plan_->works[next_completion_];
    const bool skipped = next_completion_ != completion.slot;
    if (skipped && (planned.work.signaled || signal_all_)) Fault("a completion is missing");
    if (!planned.expected.empty() && planned.expected != local_[next_completion_]) {
      Fault("wrong bytes read by work " + std::to_string(next_completion_));
    }
  }
}

void Endpoint::OnReceiveCompletion(const Completion& completion) {
  if (received_ == peers_plan_->receives.size()) return Fault("more received than was sent");
  const PlannedReceive& planned = peers_plan_->receives[received_];
  const bool immediate =
      planned.opcode == WorkOpcode::kSendWithImm || planned.opcode == WorkOpcode::kWriteWithImm;
  const bool invalidate = planned.opcode == WorkOpcode::kSendWithInvalidate;
  const bool value_fits =
      (!immediate && !invalidate) || completion.immediate_or_rkey == planned.immediate_or_rkey;
  if (completion.slot != received_ || completion.length_bytes != planned.length_bytes ||
      completion.has_immediate != immediate || completion.has_invalidate != invalidate ||
      completion.solicited != planned.solicited || !value_fits) {
    return Fault("receive completion " + std::to_string(received_) + " is wrong");
  }
  const std::vector<uint8_t>& buffer = receive_buffers_[completion.slot];
  if (!std::equal(planned.data.begin(), planned.data.end(), buffer.begin())) {
    return Fault("wrong bytes in receive " + std::to_string(received_));
  }
  if (invalidate && !TakeInvalidated(planned.immediate_or_rkey)) {
    return Fault("key not invalidated by receive " + std::to_string(received_));
  }
  ++received_;
}

bool Endpoint::TakeInvalidated(uint32_t rkey) {
  if (invalidated_.empty() || invalidated_.front() != rkey) return false;
  invalidated_.pop_front();
  return true;
}

void Endpoint::CheckMemory(const RemoteMemory& target) {
  for (uint32_t i = 0; i < RemoteMemory::kCounters; ++i) {
    if (target.Load(RemoteMemory::kBase + i * 8) != plan_->counters[i]) {
      Fault("an atomic was not executed exactly once");
    }
  }
  for (const PlannedWork& planned : plan_->works) {
    const bool is_write = planned.work.opcode == WorkOpcode::kWrite ||
                          planned.work.opcode == WorkOpcode::kWriteWithImm;
    if (!is_write || planned.local.empty()) continue;
    const auto bytes = target.At(planned.work.remote_va, planned.work.length_bytes);
    if (!std::equal(bytes.begin(), bytes.end(), planned.local.begin())) {
      Fault("wrong bytes written by work " + std::to_string(planned.work.slot));
    }
  }
}

void Endpoint::Fault(const std::string& what) {
  if (fault_.empty()) fault_ = what;
}

std::string Endpoint::Describe() const {
  char text[160];
  std::snprintf(text, sizeof text, "posted %u completed %u of %zu, received %u of %zu, psn %06x",
                posted_, next_completion_, plan_->works.size(), received_,
                peers_plan_->receives.size(), qp_.next_send_psn().value());
  return text;
}

}  // namespace uroce::sim
