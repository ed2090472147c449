// SPDX-License-Identifier: Apache-2.0
// One reliable connection, extended (XRC) or not: joins requester and responder to one interface
// for the shell.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/requester.h"
#include "pipeline/transport/responder.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Reliable connection: the whole protocol state of one RC queue pair.
/// Pure; one thread. `now` never goes back. No allocation after construction.
///
/// The shell's contract, per arriving packet (ICRC, addresses and P_Key already checked):
///   if (NeedsReceive(header)) PostReceive(next RQ entry, if there is one);
///   result = OnPacket(packet, now, effect);
///   if (effect.kind != kNone) OnEffectDone(outcome, original, now);
/// then, when the burst is over, PollLocal and PollPacket until they yield nothing, PollCompletion
/// likewise, then PollEvent, and NextDeadline once.
/// An effect of kKeep asks for the packet itself; PollKept, after each packet, gives it back.
/// With a shared receive queue, the shell takes receive works from that queue. An XRC request names
/// an SRQ: when the SRQ is not in the target's domain, the shell posts no receive work for it and
/// passes SrqAccess::kDenied.
class RcQueuePair {
 public:
  explicit RcQueuePair(const RcConfig& config);
  RcQueuePair(const RcQueuePair&) = delete;
  RcQueuePair& operator=(const RcQueuePair&) = delete;

  // ---- state ----
  QpState state() const { return state_; }
  /// Takes all of `attributes`, then the new state. kReset forgets all works without completions.
  /// kErr flushes: all works that it holds, and all that are posted later, complete with
  /// WR_FLUSH_ERR.
  void Modify(QpState state, const QueuePairAttributes& attributes);
  const QueuePairAttributes& attributes() const { return attributes_; }
  /// Changes whether the NIC at the other end agrees to selective repeat, while the connection is
  /// in use. The next Modify sets it from its attributes again.
  void SetSelectiveRepeat(bool agreed);
  /// True in SQD while works that have begun are not complete.
  bool draining() const { return state_ == QpState::kSqd && requester_.busy(); }

  // ---- send queue ----
  /// How many works may be posted now.
  uint32_t post_room() const { return requester_.works().room(); }
  [[nodiscard]] PostResult Post(const SendWork& work) { return requester_.Post(work); }
  /// Whether the send queue still holds the work of `slot`. For the shell's gather and its tests.
  bool Holds(uint32_t slot) const { return requester_.works().Holds(slot); }
  /// unsent: the works whose last packet has not left. PrefetchNext: fetches the next of them into
  /// the cache, for shells with more queue pairs than the cache holds.
  uint32_t unsent() const { return requester_.works().unsent(); }
  void PrefetchNext() const { requester_.works().PrefetchNext(); }
  /// Yields a window to bind, or a key of this side to invalidate, when its turn has come. Later
  /// works wait until OnLocalDone; packets and completions of earlier works go on.
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  /// Whether PollLocal would yield. Can become true when a packet leaves, and at OnLocalDone.
  bool HasLocal() const { return sending() && requester_.HasLocal(); }
  /// Ends the local work. Outcomes but kDone fail it: MW_BIND_ERR for a bind, else LOC_QP_OP_ERR.
  void OnLocalDone(EffectOutcome outcome);

  // ---- receive ----
  /// Whether executing this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  /// Hands one receive work to the core. In the error state the work completes flushed at once.
  void PostReceive(const ReceiveWork& work) { responder_.PostReceive(work); }
  /// ReceiveWork::queue of the receive work that the core holds; 0 when it holds none.
  uint32_t receive_queue() const { return responder_.receive_queue(); }
  /// Sets how many receive works wait besides the one handed over; they are sent to the peer as
  /// credits. Without a call, and with a shared receive queue, no credits are sent.
  void OfferCredits(uint32_t receives) {
    if (!shared_receive_) responder_.OfferCredits(receives);
  }
  /// Room for receive completions: kMaxReceiveCompletions when all were polled. PostReceive in the
  /// error state needs room for one.
  uint32_t receive_room() const { return responder_.receive_room(); }
  /// `srq` is meaningful for requests to an XRC target.
  /// Range: no effect is under way.
  [[nodiscard]] PacketResult OnPacket(const wire::Packet& packet, Nanos now, Effect& effect,
                                      SrqAccess srq = SrqAccess::kGranted);
  /// MIDDLE packets with consecutive PSNs, of which `first` is the first one, and which are equal
  /// but for AckReq and payload, in place of as many calls of OnPacket. True: `effect` is to be
  /// executed for all of them, with their payloads one after the other; CommitRun counts them
  /// afterwards. False, or without CommitRun: nothing has changed, and OnPacket takes each of them.
  /// Range: packets >= 1.
  [[nodiscard]] bool PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const;
  /// `asks_for_ack`: at least one of the packets does.
  void CommitRun(const wire::Packet& first, uint32_t packets, bool asks_for_ack, Nanos now);
  /// Ends the effect that OnPacket returned, exactly once. `original` is meaningful for kAtomic.
  void OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now);
  /// Ends it instead where a reset comes first: no answer counts its packet. Modify to kReset
  /// follows; answers that are owed to earlier packets may leave before.
  void ForgetEffect() { effect_of_ = EffectOf::kNothing; }

  // ---- packets kept behind a hole (Effect::kKeep) ----
  /// Yields the PSN of a kept packet whose turn has come. The shell passes that packet through the
  /// same steps as an arriving one, or does nothing if it has lost the packet: it will come again.
  [[nodiscard]] bool PollKept(wire::Psn& psn) { return responder_.PollKept(psn); }
  /// Whether PollKept would yield.
  bool HasKept() const { return responder_.HasKept(); }
  /// False when no kept packet is needed any more: the shell frees all that it keeps.
  bool keeps() const { return responder_.keeps(); }

  /// Why OnPacket did not execute the last request, for captures.
  const RequestReport& request_report() const { return responder_.report(); }
  /// How this connection failed; Side::kNone while it has not failed.
  Failure failure() const;

  // ---- send ----
  /// Yields the next packet: responses and acknowledgements first. False: nothing to send now.
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  /// Whether PollPacket would yield; cheap.
  bool HasPacket() const;
  /// Whether PollPacket would yield an acknowledgement, of packets or of an atomic: peers wait for
  /// these, and they are small.
  bool HasAcknowledgement() const;
  /// The payload of the packet that PollPacket just returned could not be read (key gone, range
  /// wrong): a request fails its work with LOC_PROT_ERR, a response becomes NAK remote access.
  void OnGatherFailed(const TxPacket& packet);
  /// Whether the message of the packet that PollPacket yielded last goes on.
  bool IsWithinMessage() const {
    return responder_.streaming() || (sending() && requester_.IsWithinMessage());
  }
  /// How many packets PollPacket may yield behind `packet`, a MIDDLE that it has yielded last,
  /// which are equal to it but for PSN, AckReq and the next place of the payload. 0: perhaps some.
  uint32_t RunBehind(const TxPacket& packet) const;
  /// Yields up to `most` of them: as many calls of PollPacket. Range: most <= RunBehind(packet),
  /// and nothing has happened meanwhile; most <= TxRun::kMost; the payload can be read.
  [[nodiscard]] TxRun PollRun(Nanos now, const TxPacket& packet, uint32_t most);

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    // Shells call this several times a turn, and mostly there is no completion.
    const bool sent = requester_.MayComplete() && requester_.PollCompletion(completion);
    return sent || responder_.PollCompletion(completion);
  }
  [[nodiscard]] bool PollEvent(QpEvent& event);
  /// The time to call OnDeadline; kNever while nothing is in flight. The deadline may become later
  /// without notice; the caller reads it again when the old deadline comes.
  Nanos NextDeadline() const { return requester_.recovery().deadline(); }
  /// `has_heard_all`: the shell has no packets left that came before `now`. Otherwise a tail loss
  /// probe waits, and its deadline stays.
  void OnDeadline(Nanos now, bool has_heard_all = true);
  /// The shell does not call PollPacket now, because the peer does not take packets for a while.
  /// Timeouts go on and take retries, so the shell reads NextDeadline again after this call.
  void OnHeld(Nanos now);
  const QueuePairCounters& counters() const { return counters_; }
  /// The PSNs of the next request to send and of the next request expected, for state dumps.
  wire::Psn next_send_psn() const { return requester_.works().next_psn(); }
  wire::Psn expected_psn() const { return responder_.expected_psn(); }
  /// Whether selective repeat is active: both ends agree (pipeline/transport/loss-recovery.md).
  bool selective() const { return requester_.recovery().selective(); }

  // ---- congestion control: for a shell that paces ----
  /// The least time between a request and the next data packet; mostly 0.
  Nanos send_gap() const { return requester_.recovery().send_gap(); }
  /// What the requester has lost since the last call.
  Losses TakeLosses() { return requester_.recovery().TakeLosses(); }
  /// See Requester.
  void AllowReads(uint64_t bytes) { requester_.AllowReads(bytes); }
  uint64_t read_allowance() const { return requester_.read_allowance().left_bytes(); }
  uint64_t WantedByRead() const { return sending() ? requester_.WantedByRead() : 0; }
  uint64_t AwaitedByReads() const { return requester_.AwaitedByReads(); }
  /// The newest round-trip time, which only selective repeat measures; 0 when none was measured
  /// since the last call.
  Nanos TakeRoundTrip() { return requester_.recovery().TakeRoundTrip(); }
  const congestion::Window& window() const { return requester_.recovery().window(); }
  /// The environment from now on, of the same settings: that of another worker.
  void MoveTo(const congestion::Environment& environment);

 private:
  /// Which packet the effect under way is of: OnEffectDone goes to the half that took the packet.
  enum class EffectOf : uint8_t { kNothing, kRequest, kResponse };

  bool sending() const { return state_ == QpState::kRts || state_ == QpState::kSqd; }
  /// The next packet of either half, with the opcodes of a reliable connection.
  bool PollHalves(Nanos now, TxPacket& packet);
  /// The host_delay of a packet that leaves now.
  uint8_t HostDelayFor(wire::Opcode opcode) const {
    if (congestion_ == nullptr || congestion_->host_delay == Nanos(0)) [[likely]]
      return 0;
    const bool tells = selective() && wire::InfoOf(opcode).Has(wire::OpcodeInfo::kResponse);
    return tells ? wire::HostDelayCode(congestion_->host_delay) : uint8_t{0};
  }
  void Reset();
  void EnterError();
  /// Changes the state, or raises events, when a half has failed or drained. Each packet calls it.
  void Settle() {
    if (requester_.failed() || responder_.failed() || state_ == QpState::kSqd) [[unlikely]] {
      SettleChange();
    }
  }
  void SettleChange();

  QueuePairCounters counters_;
  EventSet events_;
  QueuePairAttributes attributes_;
  QpState state_ = QpState::kReset;
  bool established_ = false;      ///< COMM_EST was raised.
  bool drain_announced_ = false;  ///< SQ_DRAINED was raised for this stay in SQD.
  EffectOf effect_of_ = EffectOf::kNothing;
  const bool shared_receive_;
  const wire::Service service_;
  const RcRole role_;
  const congestion::Environment* congestion_;
  bool last_wqe_due_ = false;  ///< LAST_WQE_REACHED waits for the last receive completion.
  bool own_turn_ = false;      ///< A READ response left last: a request may go before the next one.
  Requester requester_;
  Responder responder_;
};

}  // namespace uroce::transport
