// SPDX-License-Identifier: Apache-2.0
// One reliable connection, extended (XRC) or not: requester and responder behind the face that the
// shell drives.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/counters.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/event_set.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/rc_types.h"
#include "pipeline/transport/report.h"
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
/// With a shared receive queue PostReceive takes from that. An XRC request names one: where that is
/// none of the target's domain, DenySrq comes first, and no receive work.
class RcQueuePair {
 public:
  explicit RcQueuePair(const RcConfig& config);
  RcQueuePair(const RcQueuePair&) = delete;
  RcQueuePair& operator=(const RcQueuePair&) = delete;

  // ---- state ----
  QpState state() const { return state_; }
  /// Takes `attributes` as they now are, then the new state. kReset forgets all work without
  /// completions. kErr flushes: every work held, and all that is posted later, completes with
  /// WR_FLUSH_ERR.
  void Modify(QpState state, const QueuePairAttributes& attributes);
  const QueuePairAttributes& attributes() const { return attributes_; }
  /// The NIC at the other end agrees to selective repeat, or does not any more, while the
  /// connection lives. The next Modify takes it from the attributes again.
  void SetSelectiveRepeat(bool agreed);
  /// SQD: work already begun is still under way.
  bool draining() const { return state_ == QpState::kSqd && requester_.busy(); }

  // ---- send queue ----
  /// Room in Post's terms: how many works may be posted now.
  uint32_t post_room() const { return requester_.room(); }
  [[nodiscard]] PostResult Post(const SendWork& work) { return requester_.Post(work); }
  /// The work that `slot` names, while it is held. For the shell's gather and its tests.
  bool Holds(uint32_t slot) const { return requester_.Holds(slot); }
  /// Works that have not wholly left, and the next of them fetched into the cache: for shells with
  /// more queue pairs than the cache holds.
  uint32_t unsent() const { return requester_.unsent(); }
  void PrefetchNext() const { requester_.PrefetchNext(); }
  /// A window to bind, or a key of this side to invalidate, now that its turn has come. Later works
  /// wait until OnLocalDone; packets and completions go on.
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  /// Whether PollLocal would yield. Packets that leave, and OnLocalDone, can bring its turn.
  bool HasLocal() const { return sending() && requester_.HasLocal(); }
  /// kDone, or else the work fails: MW_BIND_ERR, LOC_QP_OP_ERR.
  void OnLocalDone(EffectOutcome outcome);

  // ---- receive ----
  /// Whether executing this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  /// Hands one receive work to the core; in the error state it completes flushed at once.
  void PostReceive(const ReceiveWork& work) { responder_.PostReceive(work); }
  /// XRC: the request that comes next names an SRQ out of its reach.
  void DenySrq() { responder_.DenySrq(); }
  /// ReceiveWork::queue of the receive work that the core holds; 0: it holds none.
  uint32_t receive_queue() const { return responder_.receive_queue(); }
  /// How many receive works wait besides the one handed over: sent to the peer as credits. Without
  /// a call, and with a shared receive queue, none are sent.
  void OfferCredits(uint32_t receives) {
    if (!shared_receive_) responder_.OfferCredits(receives);
  }
  /// Room for receive completions, kMaxReceiveCompletions when all were polled. PostReceive in the
  /// error state needs some.
  uint32_t receive_room() const { return responder_.receive_room(); }
  [[nodiscard]] PacketResult OnPacket(const wire::Packet& packet, Nanos now, Effect& effect);
  /// Ends the effect that OnPacket returned. `original` is meaningful for kAtomic.
  void OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now);

  // ---- packets kept behind a hole (Effect::kKeep) ----
  /// It is the turn of the packet `psn`, which goes through the same steps as when it came. Nothing
  /// is done for one that the shell has lost: it will come again.
  [[nodiscard]] bool PollKept(wire::Psn& psn) { return responder_.PollKept(psn); }
  /// Whether PollKept would yield.
  bool HasKept() const { return responder_.HasKept(); }
  /// False: the shell lets go of all that it keeps.
  bool keeps() const { return responder_.keeps(); }

  /// Of the last request, if OnPacket did not execute it: what a capture says of it.
  const RequestReport& request_report() const { return responder_.report(); }
  /// How this connection came to its end by itself; Side::kNone while it has not.
  Failure failure() const;

  // ---- send ----
  /// Next packet: responses and acknowledgements first. False: nothing to send now.
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  /// Whether PollPacket would yield; cheap.
  bool HasPacket(Nanos now) const;
  /// Whether PollPacket would yield an acknowledgement, for packets or of an atomic: peers wait for
  /// these, and they weigh nothing.
  bool HasAcknowledgement() const;
  /// The payload of the packet that PollPacket just returned could not be read (key gone, range
  /// wrong): a request fails its work with LOC_PROT_ERR, a response becomes NAK remote access.
  void OnGatherFailed(const TxPacket& packet, Nanos now);

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    // Asked several times a turn, mostly in vain.
    const bool sent = requester_.MayComplete() && requester_.PollCompletion(completion);
    return sent || responder_.PollCompletion(completion);
  }
  [[nodiscard]] bool PollEvent(QpEvent& event);
  /// When OnDeadline wants to be called; kNever while nothing is in flight. May move later
  /// without notice; the caller asks again when the old deadline comes.
  Nanos NextDeadline() const { return requester_.deadline(); }
  void OnDeadline(Nanos now);
  /// PollPacket's turn has come, and is passed over until the peer takes packets again. Then
  /// NextDeadline anew: retries are spent meanwhile.
  void OnHeld(Nanos now);
  const QueuePairCounters& counters() const { return counters_; }
  /// PSN of the next request to send and the next one expected, for state dumps.
  wire::Psn next_send_psn() const { return requester_.next_psn(); }
  wire::Psn expected_psn() const { return responder_.expected_psn(); }
  /// Lost packets are repeated alone: the peer has agreed (pipeline/transport/README.md).
  bool selective() const { return requester_.selective(); }

  // ---- congestion control: what a shell that paces asks ----
  /// How long after a request the next data packet leaves at the earliest; mostly 0.
  Nanos send_gap() const { return requester_.send_gap(); }
  /// What was lost of what it asked for, since this was asked last.
  Losses TakeLosses() { return requester_.TakeLosses(); }
  const congestion::Window& window() const { return requester_.window(); }

 private:
  bool sending() const { return state_ == QpState::kRts || state_ == QpState::kSqd; }
  /// The next packet of either half, with the opcodes of a reliable connection.
  bool PollHalves(Nanos now, TxPacket& packet);
  void Reset();
  void EnterError();
  /// Takes notice of what a half has come to: failed, or drained.
  void Settle();

  QueuePairCounters counters_;
  EventSet events_;
  QueuePairAttributes attributes_;
  QpState state_ = QpState::kReset;
  bool established_ = false;      ///< COMM_EST was raised.
  bool drain_announced_ = false;  ///< SQ_DRAINED was raised for this stay in SQD.
  bool effect_is_response_ = false;
  const bool shared_receive_;
  const wire::Service service_;
  const RcRole role_;
  bool last_wqe_due_ = false;  ///< LAST_WQE_REACHED waits for the last receive completion.
  bool own_turn_ = false;      ///< A READ response left last: a request may go before the next one.
  Requester requester_;
  Responder responder_;
};

}  // namespace uroce::transport
