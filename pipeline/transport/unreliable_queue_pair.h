// SPDX-License-Identifier: Apache-2.0
// The common part of UC and UD queue pairs: states, the send queue, receive works, completions.
#pragma once

#include <cstdint>

#include "pipeline/transport/counters.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/event_set.h"
#include "pipeline/transport/inbound_message.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/receive_completions.h"
#include "pipeline/transport/unreliable_sends.h"
#include "pipeline/transport/unreliable_types.h"
#include "pipeline/transport/work.h"

namespace uroce::transport {

/// Base of UcQueuePair and UdQueuePair; see there for the shell's contract.
/// An error of a send work stops the send queue only (SQE, until Modify(kRts)). An error of a
/// receive work puts the queue pair into ERR (docs/protocol/transport.md, section 6.1).
class UnreliableQueuePair {
 public:
  UnreliableQueuePair(const UnreliableQueuePair&) = delete;
  UnreliableQueuePair& operator=(const UnreliableQueuePair&) = delete;

  // ---- state ----
  QpState state() const { return state_; }
  /// Takes all of `attributes`, then the new state. kReset forgets all works without completions.
  /// kErr flushes.
  void Modify(QpState state, const QueuePairAttributes& attributes);
  const QueuePairAttributes& attributes() const { return attributes_; }
  /// True in SQD while a work that has begun is not complete.
  bool draining() const { return state_ == QpState::kSqd && sends_.busy(); }

  // ---- send queue ----
  uint32_t post_room() const { return sends_.room(); }
  bool Holds(uint32_t slot) const { return sends_.Holds(slot); }
  bool HasLocal() const { return sending() && sends_.HasLocal(); }
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  void OnLocalDone(EffectOutcome outcome);
  bool HasPacket() const { return sending() && sends_.HasPacket(); }
  /// The payload of the packet polled last could not be read: its work fails with LOC_PROT_ERR.
  void OnGatherFailed(const TxPacket& packet, Nanos now);

  // ---- receive queue ----
  /// Hands one receive work to the core. In the error state the work completes flushed at once.
  void PostReceive(const ReceiveWork& work);
  /// Room for receive completions: kMaxReceiveCompletions when all were polled. PostReceive in the
  /// error state needs room for one.
  uint32_t receive_room() const { return completions_.room(); }

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    return sends_.PollCompletion(completion) || completions_.Poll(completion);
  }
  [[nodiscard]] bool PollEvent(QpEvent& event);
  /// Always kNever: these services have no timers.
  Nanos NextDeadline() const { return kNever; }
  void OnDeadline(Nanos) {}
  const QueuePairCounters& counters() const { return counters_; }
  wire::Psn next_send_psn() const { return sends_.psn(); }

 protected:
  explicit UnreliableQueuePair(const UnreliableConfig& config)
      : sends_(config, counters_), config_(config) {}
  ~UnreliableQueuePair() = default;

  bool sending() const { return state_ == QpState::kRts || state_ == QpState::kSqd; }
  bool receiving() const { return sending() || state_ == QpState::kRtr || state_ == QpState::kSqe; }
  bool receive_ready() const { return message_.has_receive() && completions_.room() > 1; }
  /// A packet with an opcode of this service has come.
  void NoteArrival();
  void FailReceive(WcStatus status);
  void EnterError();
  /// Changes the state, or raises events, when the send queue has failed or drained.
  void Settle();

  QueuePairCounters counters_;
  EventSet events_;
  QueuePairAttributes attributes_;
  PathMtu mtu_;
  UnreliableSends sends_;
  InboundMessage message_;
  ReceiveCompletions completions_;
  const UnreliableConfig config_;
  wire::Psn epsn_;  ///< UC.

 private:
  void Reset();

  QpState state_ = QpState::kReset;
  bool established_ = false;      ///< COMM_EST was raised.
  bool drain_announced_ = false;  ///< SQ_DRAINED was raised for this stay in SQD.
  bool last_wqe_due_ = false;     ///< LAST_WQE_REACHED waits for the last receive completion.
};

}  // namespace uroce::transport
