// SPDX-License-Identifier: Apache-2.0
// The shell of a queue pair whose peer sends anything at any time, and whose memory fails. It does
// as random tests and fuzzers say, and checks the invariants that must hold nevertheless.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/transport/unreliable_queue_pair.h"
#include "tests/transport/script/kept_copies.h"

namespace uroce::sim {

/// How the shell and its memory react to one packet.
struct Reaction {
  uint32_t receive_bytes = 0;  ///< Size of the receive work, if one is needed; 0: there is none.
  bool receive_malformed = false;
  bool srq_denied = false;  ///< Of XRC: the SRQ is not accessible.
  bool effect_fails = false;
  uint64_t original = 0;  ///< The value that an atomic finds.
};

/// Checks that every work completes once and in order, that nothing outside of a work is read or
/// written, and that nothing is sent in the error state.
template <typename QueuePair>
class HostileShell {
 public:
  static constexpr bool kReliable = std::is_same_v<QueuePair, transport::RcQueuePair>;
  using Config = std::conditional_t<kReliable, transport::RcConfig, transport::UnreliableConfig>;
  using Attributes =
      std::conditional_t<kReliable, transport::QueuePairAttributes, transport::QueuePairAttributes>;

  HostileShell(const Config& config, const Attributes& attributes)
      : qp_(config), attributes_(attributes) {
    Connect();
  }

  QueuePair& qp() { return qp_; }
  const Attributes& attributes() const { return attributes_; }
  Nanos now() const { return now_; }
  /// What was wrong; "" while all is well.
  const std::string& fault() const { return fault_; }
  uint64_t connections() const { return connections_; }

  /// Moves the queue pair to the error state, unless it is there. All posted works must have
  /// completed.
  void End() {
    using transport::QpState;
    const bool refused = kReliable && qp_.state() == QpState::kErr;
    qp_.Modify(QpState::kErr, attributes_);
    PollCompletions();
    if (sends_completed_ != sends_posted_) Fault("a send work has no completion");
    if (receives_completed_ != receives_posted_) Fault("a receive work has no completion");
    if (Deadline() != kNever) Fault("a deadline in ERR");
    transport::TxPacket packet;
    if (!refused && PollPacket(packet)) Fault("a packet leaves in ERR");
  }
  /// The application connects the old queue pair again.
  void Reconnect() {
    End();
    qp_.Modify(transport::QpState::kReset, attributes_);
    local_under_way_ = false;
    sends_posted_ = sends_completed_ = receives_posted_ = receives_completed_ = 0;
    Connect();
    ++connections_;
  }
  void Drain() {
    if (qp_.state() == transport::QpState::kRts) qp_.Modify(transport::QpState::kSqd, attributes_);
  }
  /// Resumes from SQD, once the queue has drained, and from SQE.
  void Resume() {
    using transport::QpState;
    const bool drained = qp_.state() == QpState::kSqd && !qp_.draining();
    if (drained || qp_.state() == QpState::kSqe) qp_.Modify(QpState::kRts, attributes_);
  }

  void Pass(Nanos time) {
    now_ = now_ + time;
    if constexpr (kReliable) {
      if (qp_.NextDeadline() <= now_) qp_.OnDeadline(now_);
    }
  }
  void Post(transport::SendWork work) {
    if (qp_.post_room() == 0) return;
    work.slot = sends_posted_++;
    if (qp_.Post(work) != transport::PostResult::kPosted) Fault("post refused in spite of room");
  }

  void Receive(const wire::Packet& packet, const Reaction& reaction) {
    ReceiveOne(packet, reaction);
    if constexpr (kReliable) {
      wire::Psn psn;
      while (qp_.PollKept(psn)) {
        const auto kept = kept_.Take(psn);
        if (kept == nullptr) continue;  // For READs whose responses would overlap.
        ReceiveOne(kept->packet, reaction);
        PollCompletions();
      }
      if (!qp_.keeps()) kept_.Clear();
    }
  }

  /// Sends up to `most` packets; the bytes of packet `unreadable` cannot be read.
  void SendPackets(uint32_t most, uint32_t unreadable) {
    transport::TxPacket packet;
    for (uint32_t i = 0; i < most && PollPacket(packet); ++i) {
      if (packet.payload_bytes() > attributes_.path_mtu_bytes) Fault("a packet above the MTU");
      const bool gathers = packet.payload_source == transport::TxPacket::Source::kSend ||
                           packet.payload_source == transport::TxPacket::Source::kRemote;
      if (packet.payload_source == transport::TxPacket::Source::kSend &&
          !qp_.Holds(packet.local.slot)) {
        Fault("a packet of a work that is not held");
      }
      if (i == unreadable && (gathers || !kReliable)) {
        FailGather(packet);
      } else if constexpr (!kReliable) {
        qp_.OnSent(packet);
      }
    }
  }

  void BeginLocalWork() {
    transport::LocalEffect local;
    if (!local_under_way_ && qp_.PollLocal(local)) {
      local_under_way_ = true;
      if (!qp_.Holds(local.slot)) Fault("a local work that is not held");
    } else if (qp_.HasLocal()) {
      Fault("two local works at a time");
    }
  }
  void EndLocalWork(bool fails) {
    if (!local_under_way_) return;
    local_under_way_ = false;
    qp_.OnLocalDone(fails ? transport::EffectOutcome::kLocalProtection
                          : transport::EffectOutcome::kDone);
  }

  void PollCompletions() {
    transport::Completion completion;
    while (qp_.PollCompletion(completion)) {
      uint32_t& completed = completion.is_receive ? receives_completed_ : sends_completed_;
      if (completion.slot != completed++) Fault("completion out of order");
    }
  }

 private:
  void ReceiveOne(const wire::Packet& packet, const Reaction& reaction) {
    const bool denied = kReliable && reaction.srq_denied && qp_.NeedsReceive(packet.header);
    if (!denied && qp_.NeedsReceive(packet.header)) GiveReceive(reaction);
    transport::Effect effect;
    if constexpr (kReliable) {
      using transport::SrqAccess;
      static_cast<void>(
          qp_.OnPacket(packet, now_, effect, denied ? SrqAccess::kDenied : SrqAccess::kGranted));
    } else {
      static_cast<void>(qp_.OnPacket(packet, effect));
    }
    if (effect.kind == transport::Effect::Kind::kNone) return;
    CheckEffect(effect, packet);
    const bool keeps = effect.kind == transport::Effect::Kind::kKeep;
    if (keeps && !reaction.effect_fails) kept_.Keep(packet);
    const auto outcome =
        reaction.effect_fails ? FailureOf(effect) : transport::EffectOutcome::kDone;
    if constexpr (kReliable) {
      qp_.OnEffectDone(outcome, reaction.original, now_);
    } else {
      qp_.OnEffectDone(outcome);
    }
  }

  Nanos Deadline() const {
    if constexpr (kReliable) return qp_.NextDeadline();
    return kNever;
  }
  bool PollPacket(transport::TxPacket& packet) {
    if constexpr (kReliable)
      return qp_.PollPacket(now_, packet);
    else
      return qp_.PollPacket(packet);
  }
  void FailGather(const transport::TxPacket& packet) {
    if constexpr (kReliable)
      return qp_.OnGatherFailed(packet);
    else
      qp_.OnGatherFailed();
  }

  void Connect() {
    using transport::QpState;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp_.Modify(state, attributes_);
    }
  }

  void GiveReceive(const Reaction& reaction) {
    if (reaction.receive_bytes == 0) return;
    room_ = reaction.receive_bytes;
    qp_.PostReceive({.slot = receives_posted_++,
                     .length_bytes = room_,
                     .malformed = reaction.receive_malformed});
  }

  static transport::EffectOutcome FailureOf(const transport::Effect& effect) {
    using transport::Effect;
    using transport::EffectOutcome;
    switch (effect.kind) {
      case Effect::Kind::kPlaceReceive:
        return effect.invalidate ? EffectOutcome::kInvalidateFailed
                                 : EffectOutcome::kLocalProtection;
      case Effect::Kind::kInvalidate:
        return EffectOutcome::kInvalidateFailed;
      case Effect::Kind::kKeep:
        return EffectOutcome::kNotKept;
      case Effect::Kind::kPlaceSend:
      case Effect::Kind::kPlaceOriginal:
        return EffectOutcome::kLocalProtection;
      default:
        return EffectOutcome::kRemoteAccess;
    }
  }

  void CheckEffect(const transport::Effect& effect, const wire::Packet& packet) {
    using Kind = transport::Effect::Kind;
    const bool places = effect.kind == Kind::kPlaceReceive || effect.kind == Kind::kPlaceSend;
    if (places && effect.local.length_bytes != packet.payload.size()) Fault("other bytes placed");
    if (effect.kind == Kind::kPlaceSend && !qp_.Holds(effect.local.slot)) {
      Fault("placed into a work that is not held");
    }
    const uint64_t end = uint64_t{effect.local.offset_bytes} + effect.local.length_bytes;
    if (effect.kind == Kind::kPlaceReceive && end > room_) Fault("placed too far");
    const bool remote = effect.kind == Kind::kPlaceRemote || effect.kind == Kind::kCheckRemote;
    if (remote && effect.check_length_bytes < effect.remote.length_bytes) Fault("check too short");
    if (remote && effect.remote.length_bytes == 0) Fault("a key checked for nothing");
  }

  void Fault(const char* what) {
    if (fault_.empty()) fault_ = what;
  }

  QueuePair qp_;
  const Attributes attributes_;
  Nanos now_;
  uint32_t room_ = 0;
  uint32_t sends_posted_ = 0;
  uint32_t sends_completed_ = 0;
  uint32_t receives_posted_ = 0;
  uint32_t receives_completed_ = 0;
  uint64_t connections_ = 1;
  bool local_under_way_ = false;
  transport::KeptCopies kept_;
  std::string fault_;
};

}  // namespace uroce::sim
