// SPDX-License-Identifier: Apache-2.0
// Queue pairs of unreliable connections (UC) and unreliable datagrams (UD): a work is complete when
// its last packet has left, and a work that fails stops only the send queue
// (docs/protocol/transport.md, sections 6.1, 9 and 10).
#pragma once

#include <cstdint>

#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/responder_state.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// The send queue of UC and UD. Pure, one thread, owned by a queue pair, which makes the packets
/// and knows the state.
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

/// The common part of UC and UD queue pairs: states, the send queue, receive works, completions.
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
  void OnGatherFailed();
  /// The queue pair may not use the address handle of the packet polled last: its work fails with
  /// LOC_QP_OP_ERR. UD only.
  void OnAddressRefused();

  // ---- receive queue ----
  /// Hands one receive work to the core. In the error state the work completes flushed at once.
  void PostReceive(const ReceiveWork& work);
  /// Room for receive completions: kMaxReceiveCompletions when all were polled. PostReceive in the
  /// error state needs room for one.
  uint32_t receive_room() const { return completions_.room(); }

  // ---- completions, events ----
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    return sends_.PollCompletion(completion) || completions_.Poll(completion);
  }
  [[nodiscard]] bool PollEvent(QpEvent& event);
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

/// Unreliable connection (docs/protocol/transport.md, section 9): SEND and WRITE, with or without
/// immediate. Nothing is acknowledged. A message with a missing packet is lost, but bytes that a
/// lost WRITE has placed stay. Pure; one thread.. No allocation after
/// construction.
///
/// The shell's contract, per arriving packet (ICRC, addresses and P_Key already checked):
///   if (NeedsReceive(header)) PostReceive(next RQ entry, if there is one);
///   result = OnPacket(packet, effect);
///   if (effect.kind != kNone) OnEffectDone(outcome);
/// For each packet from PollPacket the shell calls OnSent when its bytes are read, or
/// OnGatherFailed, before the next packet. Then PollLocal, PollCompletion, PollEvent.
class UcQueuePair : public UnreliableQueuePair {
 public:
  explicit UcQueuePair(const UnreliableConfig& config) : UnreliableQueuePair(config) {}

  [[nodiscard]] PostResult Post(const SendWork& work);
  [[nodiscard]] bool PollPacket(TxPacket& packet);
  void OnSent(const TxPacket& packet);

  /// Whether executing this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  [[nodiscard]] ReceiveResult OnPacket(const wire::Packet& packet, Effect& effect);
  void OnEffectDone(EffectOutcome outcome);
  wire::Psn expected_psn() const { return epsn_; }

 private:
  /// Whether the packet begins a message or is the next of the one under way; moves ePSN.
  bool Follows(const wire::TransportHeader& header, const RequestShape& shape);
  /// Gives the message up; its receive work waits for the next one.
  ReceiveResult Drop(ReceiveResult why);
  void Commit();
};

/// The bytes in front of the payload of a received datagram: those of wire::GrhArea.
inline constexpr uint32_t kGrhAreaBytes = 40;

/// Unreliable datagrams (docs/protocol/transport.md, section 10): each SEND is one packet to the
/// destination that its work names. The shell decides which queue pairs get a multicast packet, and
/// calls OnPacket for each. Pure; one thread. The shell's contract is that of UcQueuePair. The
/// effect of an arriving datagram covers its payload, and asks for the GRH area in front of it.
class UdQueuePair : public UnreliableQueuePair {
 public:
  explicit UdQueuePair(const UnreliableConfig& config) : UnreliableQueuePair(config) {}

  /// A work with a payload beyond the MTU fails in its turn, with LOC_LEN_ERR.
  [[nodiscard]] PostResult Post(const SendWork& work);
  [[nodiscard]] bool PollPacket(TxPacket& packet);
  void OnSent(const TxPacket& packet);

  /// Whether this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  [[nodiscard]] ReceiveResult OnPacket(const wire::Packet& packet, Effect& effect);
  void OnEffectDone(EffectOutcome outcome);

 private:
  ReceiveResult OnTooLong();

  Completion arriving_;  ///< The completion of the datagram whose effect is under way.
};

}  // namespace uroce::transport
