// SPDX-License-Identifier: Apache-2.0
// What UC and UD queue pairs share: states, the send queue's end, receive works and completions.
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
/// An error of a work to be sent stops the send queue alone (SQE, until Modify(kRts)); one of a
/// receive work ends the queue pair (docs/protocol/transport.md, section 6.1).
class UnreliableQueuePair {
 public:
  UnreliableQueuePair(const UnreliableQueuePair&) = delete;
  UnreliableQueuePair& operator=(const UnreliableQueuePair&) = delete;

  // ---- state ----
  QpState state() const { return state_; }
  /// Takes `attributes` as they now are, then the new state. kReset forgets all work without
  /// completions. kErr flushes.
  void Modify(QpState state, const QueuePairAttributes& attributes);
  const QueuePairAttributes& attributes() const { return attributes_; }
  /// SQD: a work already begun is still under way.
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
  /// Hands one receive work to the core; in the error state it completes flushed at once.
  void PostReceive(const ReceiveWork& work);
  /// Room for receive completions, kMaxReceiveCompletions when all were polled. PostReceive in the
  /// error state needs some.
  uint32_t receive_room() const { return completions_.room(); }

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    return sends_.PollCompletion(completion) || completions_.Poll(completion);
  }
  [[nodiscard]] bool PollEvent(QpEvent& event);
  /// Nothing is ever waited for.
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
  /// A packet that this service knows has come.
  void NoteArrival();
  void FailReceive(WcStatus status);
  void EnterError();
  /// Takes notice of what the send queue has come to: failed, or drained.
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
