// SPDX-License-Identifier: Apache-2.0
// The send queue of UC and UD: a work is complete when its last packet has left. A work that fails
// stops only the send queue (docs/protocol/transport.md, sections 6.1, 9 and 10).
#pragma once

#include <cstdint>

#include "pipeline/transport/counters.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/send_ring.h"
#include "pipeline/transport/unreliable_types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Pure, one thread, owned by a queue pair, which makes the packets and knows the state.
///
/// Works lie in a ring under free-running indices, divided by marks:
///   reported_ <= next_ <= tail_
/// [reported_, next_) is complete and waits for PollCompletion; next_ is being sent, or the first
/// of to_flush_ works that flush.
class UnreliableSends {
 public:
  UnreliableSends(const UnreliableConfig& config, QueuePairCounters& counters)
      : counters_(counters), ring_(config.max_send_works), signal_all_(config.signal_all) {}

  // ---- state ----
  void Start(wire::Psn first) { psn_ = first; }
  /// Hold is for SQD: the work under way is finished, no other work begins.
  void SetHold(bool hold) { holding_ = hold; }
  /// SQE and ERR: all works held, and all that are posted later, complete with WR_FLUSH_ERR; a work
  /// that failed comes first with its own status.
  void Flush();
  /// SQE to RTS: works posted from now on are sent.
  void Resume() { stopped_ = failed_ = false; }
  void Reset();
  /// True when a work has failed: the queue pair must enter SQE.
  bool failed() const { return failed_; }
  /// True while a work is under way.
  bool busy() const { return packets_sent_ != 0 || leaving_ || executing_local_; }

  // ---- works ----
  uint32_t room() const { return ring_.capacity() - (tail_ - reported_); }
  /// `verdict`: kSuccess, or the status with which the work fails in its turn.
  [[nodiscard]] PostResult Post(const SendWork& work, WcStatus verdict);
  bool Holds(uint32_t slot) const;

  // ---- packets ----
  bool HasPacket() const { return TurnOf() == Turn::kPacket || TurnOf() == Turn::kUnfit; }
  /// The work whose packet is sent next, or null. The caller ends each packet by OnSent or Fail.
  const SendWork* Next();
  uint32_t packets_sent() const { return packets_sent_; }
  wire::Psn psn() const { return psn_; }
  /// The caller has made a packet: nothing else leaves before its bytes are read.
  void OnPacket() { leaving_ = true; }
  /// The bytes of the packet are read. `last`: it is the last packet of its work.
  void OnSent(bool last);
  /// The work under way ends with `status`.
  void Fail(WcStatus status);
  bool HasLocal() const { return TurnOf() == Turn::kLocal; }
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  void OnLocalDone(EffectOutcome outcome);

  [[nodiscard]] bool PollCompletion(Completion& completion);

 private:
  struct Held {
    SendWork work;
    WcStatus verdict = WcStatus::kSuccess;
  };
  /// What the work at next_ needs now.
  enum class Turn : uint8_t { kNone, kPacket, kLocal, kUnfit };
  Turn TurnOf() const;

  QueuePairCounters& counters_;
  SendRing<Held> ring_;
  uint32_t reported_ = 0;
  uint32_t next_ = 0;
  uint32_t tail_ = 0;
  uint32_t to_flush_ = 0;
  uint32_t packets_sent_ = 0;  ///< Packets of the work at next_ that were sent.
  wire::Psn psn_;
  const bool signal_all_;
  bool leaving_ = false;
  bool executing_local_ = false;
  bool holding_ = false;
  bool stopped_ = false;  ///< SQE or ERR.
  bool failed_ = false;
  WcStatus head_status_ = WcStatus::kWrFlushErr;  ///< Of the work at next_, when it is flushed.
};

}  // namespace uroce::transport
