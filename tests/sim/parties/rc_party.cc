// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/rc_party.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "pipeline/wire/to_string.h"
#include "tests/sim/parties/read_results.h"

namespace uroce::sim {
namespace {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::QpState;
using transport::TxPacket;
using transport::WcStatus;
using transport::WorkOpcode;

constexpr uint32_t kBurst = 32;
constexpr Nanos kTurnPause{1'000};

std::string Number(const char* what, uint32_t number) {
  return std::string(what) + " " + std::to_string(number);
}

}  // namespace

RcParty::RcParty(uint32_t host, const RcPartyConfig& config, RemoteMemory& memory,
                 ReceivePool& pool, const Path& path, uint64_t seed)
    : Party(host),
      config_(config),
      qp_(config.core),
      memory_(memory),
      pool_(pool),
      path_(path),
      random_(seed) {}

void RcParty::Connect(const transport::QueuePairAttributes& attributes) {
  attributes_ = attributes;
  attributes_.selective_repeat = config_.agreed;
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    qp_.Modify(state, attributes_);
  }
}

void RcParty::Reconnect(Qpn peer, wire::Psn sq_psn, wire::Psn rq_psn) {
  qp_.Modify(QpState::kReset, attributes_);
  path_.Redirect(peer);
  local_.clear();
  invalidated_.clear();
  kept_.Clear();
  posted_ = next_completion_ = received_ = 0;
  local_under_way_ = ended_ = receive_ended_ = false;
  unlucky_timeouts_ = 0;
  next_receive_ = pool_.next_slot();
  transport::QueuePairAttributes attributes = attributes_;
  attributes.sq_psn = sq_psn;
  attributes.rq_psn = rq_psn;
  Connect(attributes);
}

void RcParty::SetPeer(const Workload* own, const RcParty* peer, const Workload* peers) {
  plan_ = own;
  peer_ = peer;
  peers_plan_ = peers;
  judge_.emplace(*peers, attributes_.rq_psn, attributes_.path_mtu_bytes);
  for (const PlannedWork& planned : own->works) local_.push_back(planned.local);
}

bool RcParty::finished() const {
  if (next_completion_ != plan_->works.size()) return false;
  return received_ == peers_plan_->receives.size() || receive_ended_ || ended_ || peer_->ended();
}

Nanos RcParty::Turn(Nanos now) {
  if (qp_.NextDeadline() <= now) OnDeadline(now);
  pool_.Refill(now);
  ReplayKept(now);
  PollCompletions();
  PauseSending();
  ChangeCapabilities();
  PostWorks();
  DoLocalWorks();
  SendPackets(now);
  PollCompletions();
  Nanos next = qp_.NextDeadline();
  if (!finished()) next = std::min(next, pool_.next_refill());
  const bool posts = posted_ != plan_->works.size() && qp_.post_room() != 0;
  if (finished() && !ended_ && qp_.AwaitedByReads() != 0) Fault("nothing is awaited any more");
  const bool more = qp_.HasPacket() || qp_.WantedByRead() != 0 || qp_.HasLocal() || qp_.HasKept() ||
                    posts || local_under_way_ || qp_.state() == QpState::kSqd;
  return std::max(more ? std::min(next, now + kTurnPause) : next, now + Nanos(1));
}

void RcParty::OnDeadline(Nanos now) {
  const uint64_t timeouts = counters().local_ack_timeout_err;
  qp_.OnDeadline(now);
  if (counters().local_ack_timeout_err == timeouts) return;
  const uint64_t lost = lost_frames_ + peer_->lost_frames_;
  unlucky_timeouts_ = lost == lost_at_timeout_ ? 0 : unlucky_timeouts_ + 1;
  lost_at_timeout_ = lost;
}

void RcParty::PauseSending() {
  if (qp_.state() == QpState::kRts && random_.Happens(2)) qp_.Modify(QpState::kSqd, attributes_);
  if (qp_.state() == QpState::kSqd && !qp_.draining()) qp_.Modify(QpState::kRts, attributes_);
}

void RcParty::ChangeCapabilities() {
  if (!config_.agreed || !random_.Happens(1)) return;
  attributes_.selective_repeat = !attributes_.selective_repeat;
  qp_.SetSelectiveRepeat(attributes_.selective_repeat);
}

void RcParty::PostWorks() {
  // Posts in groups, so that the queue is sometimes empty and sometimes full.
  while (posted_ != plan_->works.size() && qp_.post_room() != 0 && !random_.Happens(200)) {
    if (qp_.Post(plan_->works[posted_].work) != transport::PostResult::kPosted) {
      return Fault("post refused in spite of room");
    }
    ++posted_;
  }
}

void RcParty::DoLocalWorks() {
  transport::LocalEffect local;
  if (qp_.PollLocal(local)) {
    if (local_under_way_) return Fault("two local works at a time");
    if (local.slot >= posted_) return Fault("a local work that is not posted");
    const bool after_signaled = local.slot != 0 && plan_->works[local.slot - 1].work.signaled;
    if (local.kind == transport::LocalEffect::Kind::kInvalidate && after_signaled &&
        next_completion_ != local.slot) {
      Fault("an invalidation before the end of what is before it");
    }
    local_under_way_ = true;
    local_slot_ = local.slot;
  }
  if (!local_under_way_ || random_.Happens(300)) return;
  local_under_way_ = false;
  const bool fails = plan_->works[local_slot_].failure != WcStatus::kSuccess;
  qp_.OnLocalDone(fails ? EffectOutcome::kLocalProtection : EffectOutcome::kDone);
}

void RcParty::OnFrame(const ReceivedFrame& frame, Nanos now) {
  Receive(frame.packet, now);
  ReplayKept(now);
}

void RcParty::ReplayKept(Nanos now) {
  wire::Psn psn;
  // Leaves some for later, if there is other work.
  while (!random_.Happens(50) && qp_.PollKept(psn)) {
    const std::unique_ptr<transport::PacketCopy> kept = kept_.Take(psn);
    if (kept == nullptr) return Fault("a packet is to be given back that was not kept");
    if (random_.Happens(5)) continue;  // Treated as lost after all.
    Receive(kept->packet, now);
  }
  if (!qp_.keeps()) kept_.Clear();
}

EffectOutcome RcParty::Keep(const wire::Packet& packet) {
  if (random_.Happens(50) && !config_.has_room) return EffectOutcome::kNotKept;
  kept_.Keep(packet);
  return EffectOutcome::kDone;
}

void RcParty::Receive(const wire::Packet& packet, Nanos now) {
  if (qp_.NeedsReceive(packet.header)) {
    if (const auto work = pool_.Take()) qp_.PostReceive(*work);
  }
  Effect effect;
  const transport::PacketResult result = qp_.OnPacket(packet, now, effect);
  const bool refused =
      result == transport::PacketResult::kNak || (result == transport::PacketResult::kMalformed &&
                                                  !wire::IsOfManufacturer(packet.header.opcode));
  if (refused && !config_.may_fail) Fault("refused " + wire::ToString(packet));
  if (effect.kind == Effect::Kind::kNone) return;
  PollCompletions();  // A program may poll here: completed data must be in memory.
  if (effect.kind == Effect::Kind::kKeep) return qp_.OnEffectDone(Keep(packet), 0, now);
  uint64_t original = 0;
  const EffectOutcome outcome = Execute(effect, packet, original);
  if (outcome != EffectOutcome::kDone && !config_.may_fail) {
    Fault("effect failed of " + wire::ToString(packet));
  }
  qp_.OnEffectDone(outcome, original, now);
}

EffectOutcome RcParty::Execute(const Effect& effect, const wire::Packet& packet,
                               uint64_t& original) {
  switch (effect.kind) {
    case Effect::Kind::kPlaceReceive: {
      std::vector<uint8_t>& buffer = pool_.Buffer(effect.local.slot);
      if (effect.local.offset_bytes + packet.payload.size() > buffer.size()) {
        Fault("placed behind the end of a receive work");
        return EffectOutcome::kLocalProtection;
      }
      std::ranges::copy(packet.payload, buffer.begin() + effect.local.offset_bytes);
      Fault(judge_->OnPlaceReceive(effect.local, packet));
      if (effect.invalidate) invalidated_.push_back(effect.invalidate_rkey.value());
      return EffectOutcome::kDone;
    }
    case Effect::Kind::kInvalidate:
      Fault(judge_->OnPlaceReceive(effect.local, packet));
      invalidated_.push_back(effect.invalidate_rkey.value());
      return EffectOutcome::kDone;
    case Effect::Kind::kPlaceSend:
    case Effect::Kind::kPlaceOriginal:
      return PlaceLocal(effect, packet);
    default:
      return ExecuteRemote(effect, packet, original);
  }
}

EffectOutcome RcParty::PlaceLocal(const Effect& effect, const wire::Packet& packet) {
  const transport::LocalRange& local = effect.local;
  std::vector<uint8_t>& buffer = local_[local.slot];
  if (!qp_.Holds(local.slot)) Fault("placement into a work that is not held");
  if (plan_->works[local.slot].scatter_fails) return EffectOutcome::kLocalProtection;
  if (local.offset_bytes + local.length_bytes > buffer.size()) {
    Fault("placed behind the end of a work");
    return EffectOutcome::kLocalProtection;
  }
  const bool is_read = effect.kind == Effect::Kind::kPlaceSend;
  const void* source = is_read ? static_cast<const void*>(packet.payload.data()) : &effect.value;
  std::memcpy(buffer.data() + local.offset_bytes, source, local.length_bytes);
  return EffectOutcome::kDone;
}

EffectOutcome RcParty::ExecuteRemote(const Effect& effect, const wire::Packet& packet,
                                     uint64_t& original) {
  const transport::RemoteRange& remote = effect.remote;
  if (!memory_.Allows(remote.rkey, remote.va, effect.check_length_bytes)) {
    return EffectOutcome::kRemoteAccess;
  }
  if (effect.kind == Effect::Kind::kPlaceRemote) {
    memory_.Write(remote.va, packet.payload);
    Fault(judge_->OnPlaceRemote(remote, packet));
  } else if (effect.kind == Effect::Kind::kAtomic) {
    original = ExecuteAtomic(effect);
    Fault(judge_->OnAtomic(remote, original, packet));
  } else if (effect.access == transport::Access::kRemoteRead) {
    Fault(judge_->OnRead(packet));
  }
  return EffectOutcome::kDone;
}

uint64_t RcParty::ExecuteAtomic(const Effect& effect) {
  const uint64_t va = effect.remote.va;
  const uint64_t original = memory_.Load(va);
  if (!effect.compare_swap) memory_.Store(va, original + effect.swap_add);
  if (effect.compare_swap && original == effect.compare) memory_.Store(va, effect.swap_add);
  return original;
}

void RcParty::AllowReads() {
  if (!config_.bounds_reads) return;
  if (qp_.read_allowance() == transport::ReadAllowance::kUnlimited) qp_.AllowReads(0);
  const uint64_t wanted = qp_.WantedByRead();
  if (wanted != 0 && !random_.Happens(300)) qp_.AllowReads(wanted + random_.Below(8192));
}

void RcParty::SendPackets(Nanos now) {
  AllowReads();
  if (config_.offers_credits) qp_.OfferCredits(pool_.waiting());
  // Sometimes a scheduler gives less than the queue pair wants.
  const uint32_t budget = random_.Happens(200) ? random_.Below(4) : kBurst;
  TxPacket packet;
  for (uint32_t i = 0; i < budget; ++i) {
    const bool promised = qp_.HasPacket();
    if (!qp_.PollPacket(now, packet)) {
      if (promised && !config_.may_fail) Fault("HasPacket promised a packet that did not come");
      return;
    }
    if (!promised) Fault("HasPacket denied a packet that came");
    if (!SendPacket(packet, now)) qp_.OnGatherFailed(packet);
  }
}

bool RcParty::SendPacket(const TxPacket& packet, Nanos now) {
  if (packet.payload_bytes() > attributes_.path_mtu_bytes) Fault("a packet above the path MTU");
  std::span<const uint8_t> payload;
  if (packet.payload_source == TxPacket::Source::kSend) {
    const transport::LocalRange& local = packet.local;
    if (!qp_.Holds(local.slot)) Fault("packet of a work that is not held");
    if (plan_->works[local.slot].gather_fails) return false;
    payload = std::span(local_[local.slot]).subspan(local.offset_bytes, local.length_bytes);
  } else if (packet.payload_source == TxPacket::Source::kRemote) {
    payload = memory_.At(packet.remote.va, packet.remote.length_bytes);
  } else if (packet.payload_source == TxPacket::Source::kOwn) {
    payload = packet.own;
  }
  if (transport::IsResponse(packet.header.opcode)) Fault(judge_->OnAnswer(packet));
  lost_frames_ += !path_.Send(packet.header, payload, now);
  return true;
}

void RcParty::PollCompletions() {
  Completion completion;
  while (qp_.PollCompletion(completion)) {
    const bool success = completion.status == WcStatus::kSuccess;
    if (completion.is_receive) {
      success ? OnReceiveCompletion(completion) : OnReceiveError(completion);
    } else {
      success ? OnSendCompletion(completion) : OnSendError(completion);
    }
  }
}

void RcParty::OnSendCompletion(const Completion& completion) {
  if (completion.slot < next_completion_ || completion.slot >= posted_) {
    return Fault("send completion out of order");
  }
  if (ended_) return Fault("success behind an error");
  unlucky_timeouts_ = 0;
  if (plan_->works[completion.slot].failure != WcStatus::kSuccess) {
    return Fault(Number("success of illegal work", completion.slot));
  }
  for (; next_completion_ <= completion.slot; ++next_completion_) JudgeResult(next_completion_);
  if (!peer_->judge_->HasExecuted(completion.slot)) {
    Fault(Number("success before its execution of work", completion.slot));
  }
  const bool signaled = plan_->works[completion.slot].work.signaled || config_.core.signal_all;
  if (!signaled) Fault("completion of an unsignaled work");
}

void RcParty::OnSendError(const Completion& completion) {
  if (completion.slot < next_completion_ || completion.slot >= posted_) {
    return Fault("send error out of order");
  }
  const WcStatus foretold = plan_->works[completion.slot].failure;
  const bool flushed = completion.status == WcStatus::kWrFlushErr;
  const bool foretold_now = foretold != WcStatus::kSuccess && completion.status == foretold;
  // Its own requests put the peer's end in error; or the peer is silent, because it died, its NAK
  // was lost, or the network lost too much.
  const bool by_peer = flushed && (config_.may_die || peers_plan_->has_illegal);
  const bool silent = config_.may_fail || peer_->ended_ || unlucky();
  const bool silence = completion.status == WcStatus::kRetryExcErr && silent;
  const bool first_fits = foretold_now || by_peer || silence;
  if (ended_ ? !flushed : !first_fits) {
    return Fault(Number("send completion", completion.slot) +
                 Number(" in error, status", static_cast<uint32_t>(completion.status)));
  }
  for (; next_completion_ < completion.slot; ++next_completion_) JudgeResult(next_completion_);
  ++next_completion_;
  if (!ended_ && completion.status == foretold) foretold_end_ = true;
  ended_ = true;
}

void RcParty::JudgeResult(uint32_t index) {
  const PlannedWork& planned = plan_->works[index];
  if (planned.failure != WcStatus::kSuccess) Fault(Number("no error of illegal work", index));
  const bool is_read = planned.work.opcode == WorkOpcode::kRead;
  const std::vector<uint8_t>& result = local_[index];
  if (is_read ? !MayRead(*plan_, index, result)
              : !planned.expected.empty() && planned.expected != result) {
    Fault(Number("wrong bytes read by work", index));
  }
}

void RcParty::OnReceiveCompletion(const Completion& completion) {
  if (received_ == peers_plan_->receives.size()) return Fault("more received than was sent");
  const PlannedReceive& planned = peers_plan_->receives[received_];
  const bool immediate =
      planned.opcode == WorkOpcode::kSendWithImm || planned.opcode == WorkOpcode::kWriteWithImm;
  const bool invalidate = planned.opcode == WorkOpcode::kSendWithInvalidate;
  const bool value_fits =
      (!immediate && !invalidate) || completion.immediate_or_rkey == planned.immediate_or_rkey;
  if (completion.length_bytes != planned.length_bytes || completion.has_immediate != immediate ||
      completion.has_invalidate != invalidate || completion.solicited != planned.solicited ||
      completion.queue != 7 || !value_fits) {
    return Fault(Number("wrong receive completion", received_));
  }
  const std::vector<uint8_t>& buffer = pool_.Buffer(completion.slot);
  if (!std::equal(planned.data.begin(), planned.data.end(), buffer.begin())) {
    return Fault(Number("wrong bytes in receive", received_));
  }
  if (invalidate && !TakeInvalidated(planned.immediate_or_rkey)) {
    return Fault(Number("key not invalidated by receive", received_));
  }
  if (!judge_->HasExecuted(planned.work)) {
    return Fault(Number("received before the end of request", planned.work));
  }
  TakeReceive(completion.slot);
  ++received_;
}

void RcParty::TakeReceive(uint32_t slot) {
  // From a shared queue other queue pairs take some.
  const bool in_order = config_.core.shared_receive ? slot >= next_receive_ : slot == next_receive_;
  if (!in_order) Fault("receive works out of order");
  next_receive_ = slot + 1;
  pool_.Release(slot);
}

void RcParty::OnReceiveError(const Completion& completion) {
  const bool known =
      completion.status == WcStatus::kWrFlushErr || completion.status == WcStatus::kLocLenErr;
  if (!(config_.may_fail || ended_) || !known) Fault("a receive work failed");
  receive_ended_ = true;
}

bool RcParty::TakeInvalidated(uint32_t rkey) {
  if (invalidated_.empty() || invalidated_.front() != rkey) return false;
  invalidated_.pop_front();
  return true;
}

void RcParty::Judge() {
  // After the peer's last work succeeded, all that it promises must be there. A peer that died or
  // was abandoned may have come to any point.
  const Workload& plan = *peers_plan_;
  const bool whole = !config_.may_fail && !ended_ && !peer_->ended_;
  const bool complete = whole || (peer_->ended_ && plan.has_illegal && !dead() && !peer_->dead() &&
                                  peer_->foretold_end());
  if (!complete) return;
  const auto memory = memory_.At(RemoteMemory::kBase, memory_.size_bytes());
  if (!std::ranges::equal(memory, plan.memory)) {
    Fault("memory is not what the peer's works make of it");
  }
}

std::string RcParty::Describe() const {
  char text[240];
  const auto& counters = qp_.counters();
  std::snprintf(
      text, sizeof text,
      "state %d posted %u completed %u of %zu, received %u of %zu, psn %06x expected %06x, "
      "resent %lu timeouts %lu rnr %lu",
      static_cast<int>(qp_.state()), posted_, next_completion_, plan_->works.size(), received_,
      peers_plan_->receives.size(), qp_.next_send_psn().value(), qp_.expected_psn().value(),
      counters.retransmitted_pkts, counters.local_ack_timeout_err, counters.rnr_nak_retry_err);
  return text;
}

}  // namespace uroce::sim
