// SPDX-License-Identifier: Apache-2.0
// Requester half of a reliable connection: makes works into requests, and responses into
// completions (docs/protocol/transport.md, section 3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/transport/counters.h"
#include "pipeline/transport/credits.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/flight_window.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/rc_types.h"
#include "pipeline/transport/report.h"
#include "pipeline/transport/selective_resend.h"
#include "pipeline/transport/send_ring.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/kept_map.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Pure, one thread, owned by an RcQueuePair, which knows the state and calls accordingly.
///
/// Works lie in a ring under free-running indices, divided by marks:
///   reported_ <= done_ <= begun_ <= tail_
/// [reported_, done_) is complete and waits for PollCompletion; [done_, begun_) has PSNs and is
/// under way; [begun_, tail_) has not been looked at. `next_` in [done_, begun_] is the work whose
/// packet `next_psn_` is sent next: going back to resend moves these two and nothing else.
/// PSNs: una_ (oldest unacknowledged, in the work done_) .. next_psn_ .. high_psn_ (never sent).
/// A local work (window, invalidation) lies between them without a PSN: it is begun once it is
/// done, and ends with what is before it.
class Requester {
 public:
  Requester(const RcConfig& config, QueuePairCounters& counters);

  // ---- state ----
  void Configure(const QueuePairAttributes& attributes);
  /// RTR to RTS: the first request carries `first`.
  void Start(wire::Psn first);
  /// SQD holds: works under way are finished, none is begun.
  void SetHold(bool hold) { holding_ = hold; }
  /// The responder agrees to selective repeat, or does not any more.
  void SetSelective(bool agreed);
  /// Forgets all works.
  void Reset();
  /// Error state: what is held, and all that comes, completes with WR_FLUSH_ERR; a work that
  /// failed comes first with its own status.
  void Flush();
  /// The work at the head has failed, its status is set: the queue pair belongs into ERR.
  bool failed() const { return failed_; }
  /// How; meaningful once failed.
  const Failure& failure() const { return failure_; }
  /// Works are under way.
  bool busy() const { return done_ != begun_ || executing_local_; }

  // ---- works ----
  uint32_t room() const { return ring_.capacity() - (tail_ - reported_); }
  [[nodiscard]] PostResult Post(const SendWork& work);
  bool Holds(uint32_t slot) const;
  /// Works whose last packet has not left.
  uint32_t unsent() const { return tail_ - next_; }
  /// Fetches the next work into the cache, some time before PollPacket.
  void PrefetchNext() const { __builtin_prefetch(&ring_.At(next_)); }
  /// The next work is a local one, and it is its turn: nothing later begins before OnLocalDone.
  bool HasLocal() const { return NextGate() == Gate::kLocal; }
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  void OnLocalDone(EffectOutcome outcome);

  // ---- events ----
  /// Applies an ACK, NAK, READ response or atomic acknowledgement. It acknowledges SENDs and WRITEs
  /// before its PSN too; a READ or atomic before it has lost its response and is resent.
  [[nodiscard]] PacketResult OnResponse(const wire::Packet& packet, Nanos now, Effect& effect);
  void OnEffectDone(EffectOutcome outcome, Nanos now);
  void OnGatherFailed(const TxPacket& packet);
  /// Ends an RNR wait, or resends, or fails the oldest work when its retries are spent.
  void OnDeadline(Nanos now);
  /// The next packet may not leave for now. The ACK timer runs as if it had, and was lost.
  void OnHeld(Nanos now);

  // ---- outputs ----
  bool HasPacket() const {
    const Gate gate = NextGate();
    return gate == Gate::kOpen || gate == Gate::kDoomed;
  }
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  /// False: PollCompletion yields nothing.
  bool MayComplete() const { return reported_ != done_ || flushing_; }
  [[nodiscard]] bool PollCompletion(Completion& completion);
  Nanos deadline() const { return std::min(deadline_, probe_deadline_); }
  wire::Psn next_psn() const { return next_psn_; }
  /// Lost packets are repeated alone.
  bool selective() const { return selective_; }

 private:
  /// Whether the next packet may leave.
  enum class Gate : uint8_t {
    kShut,
    kOpen,
    kLocal,   ///< PollLocal's turn.
    kDoomed,  ///< The next work cannot be executed; it fails when all before it is complete.
  };

  uint32_t InFlight() const { return Distance(una_, next_psn_); }
  uint32_t Outstanding() const { return Distance(una_, high_psn_); }
  /// What the window bounds: a READ is one packet of ours, however many answer it.
  uint32_t RequestsInFlight() const { return InFlight() - response_psns_; }
  Gate NextGate() const;
  Gate StartGate(const HeldWork& work) const;
  /// Its first packet has left without credit, and the rest waits for the answer.
  bool AwaitsProbe(const HeldWork& work) const {
    return probing_ && work.first_psn == probe_psn_ && next_psn_ != probe_psn_;
  }
  void Doom(uint32_t index, WcStatus status);
  void Begin(HeldWork& work);
  /// Fillers of the packet at next_psn_, the `sent`-th of its work. They return the PSNs it takes.
  uint32_t FillMessage(const HeldWork& work, uint32_t sent, TxPacket& packet) const;
  uint32_t FillRead(const HeldWork& work, uint32_t sent, TxPacket& packet) const;
  uint32_t FillAtomic(const HeldWork& work, TxPacket& packet) const;
  uint32_t FillAtomicWrite(const HeldWork& work, TxPacket& packet) const;
  void Advance(const HeldWork& work, uint32_t packets);
  /// Fills in the packet at `psn`, of `work`, but for what differs from send to resend. Returns the
  /// PSNs it takes.
  uint32_t Fill(const HeldWork& work, wire::Psn psn, TxPacket& packet) const;
  /// The work under way that `psn` belongs to, not before the one at `from`.
  uint32_t IndexOf(wire::Psn psn, uint32_t from) const;

  // Selective repeat: requester_selective.cc.
  void PollResend(TxPacket& packet);
  PacketResult OnSelectiveAcknowledge(const wire::Packet& packet, Nanos now);
  /// Whether the map of a selective acknowledgement of all before `base` has what was sent in this
  /// round.
  bool HasArrived(wire::Psn base, const wire::KeptMap& map);
  /// Behind a map of the whole KeptWindow nothing is kept: all from `psn` on is sent again.
  void ResendBehind(wire::Psn psn);
  /// Resends what the map says is missing.
  void AddMissing(wire::Psn base, const wire::KeptMap& map);
  /// How many of its packets were sent and may be spoken of.
  uint32_t MapReach(wire::Psn base, const wire::KeptMap& map) const;
  /// A packet that is sent now begins a round if none is under way.
  void BeginRound(Nanos now);
  /// Something sent in this round has arrived: a round trip has ended.
  void EndRound(Nanos now);
  /// What a response shows to have arrived may have been sent in this round, which ends then.
  void NoteArrival(const wire::TransportHeader& response, Nanos now);
  void NextRound();
  void ForgetLost();
  /// A sequence NAK of `psn`.
  void OnHoleAt(wire::Psn psn);
  /// Resends all from `psn` on. What is before was executed, and may still be answered.
  void GoBackTo(wire::Psn psn);
  /// False: it is known, or may be on its way.
  bool AddLost(wire::Psn psn);
  /// All before `end` was executed and answered: responses that have not come are lost.
  void NoteHeard(wire::Psn end);
  void FindLostResponses();
  /// A response ahead of its turn: its bytes go to their place at once.
  PacketResult OnEarlyResponse(const wire::Packet& packet, Effect& effect);
  void OnEarlyDone(EffectOutcome outcome);
  /// Acknowledges what was heard of earlier and whose turn has come now.
  void TakeHeard();
  void StartProbeTimer(Nanos now);
  /// Nothing came for long: the last packet again finds out what is missing.
  void Probe(Nanos now);
  /// The same where responses are known to be missing.
  void AskAgain();
  bool MayProbe() const;
  /// The last packet, since what answers it tells of all before. Of a READ no last packet is known
  /// to be one that was executed: the oldest. A responder that has not begun to answer it does
  /// nothing more for it.
  wire::Psn ProbePsn() const;
  /// Where it was executed, a READ is asked again for the responses that are lost alone.
  uint32_t FillLostResponses(const HeldWork& work, wire::Psn psn, TxPacket& packet) const;

  void TakeCredits(const wire::TransportHeader& header);
  PacketResult OnAcknowledge(const wire::TransportHeader& header, Nanos now);
  PacketResult OnNak(const wire::TransportHeader& header, Nanos now);
  void OnSequenceNak(const wire::TransportHeader& header);
  PacketResult OnRnrNak(const wire::TransportHeader& header, Nanos now);
  /// A READ response or an atomic acknowledgement.
  PacketResult OnDataResponse(const wire::Packet& packet, Nanos now, Effect& effect);
  /// Whether data is what `work` asks for, and says that all is well.
  static bool IsAnswer(const wire::TransportHeader& header, const HeldWork& work);
  /// What the response to `work` does to memory; kSuccess, or how the work fails.
  WcStatus PlaceResponse(const HeldWork& work, const wire::Packet& packet, Effect& effect) const;
  /// Acknowledges all before `end`. False when a READ or atomic stands in the way: its response
  /// was lost, and a resend from there has begun.
  bool AcknowledgeBefore(wire::Psn end, Nanos now);
  /// The same without the resend.
  bool Acknowledge(wire::Psn end, Nanos now);
  /// An implied NAK: the oldest READ or atomic is answered no more by itself.
  void OnResponseLost();
  /// The response at una_ has come.
  void TakeResponse();
  void Retire(const HeldWork& work);
  void OnProgress(Nanos now);
  /// Resends from the oldest unacknowledged packet at the cost of a retry, once per event, or fails
  /// the work. A NAK, or an implied one, behind a timeout without progress costs none. What is
  /// resent selectively costs none: there the ACK timeout alone counts, from the last progress on,
  /// since a responder names what it misses many times within it.
  void Retry(ResendCause cause);
  void NoteResend(ResendCause cause);
  void GoBack(const Resend& resend);
  /// From `now`, longer after each timeout in a row: see kMaxBackoff.
  void RestartTimer(Nanos now);
  Nanos AckDeadline(Nanos now) const;
  void StopTimers();
  /// `syndrome` is that of the NAK that says so, if one does.
  void Fail(WcStatus status, uint8_t syndrome = 0);
  bool Reported(const HeldWork& work) const { return signal_all_ || work.signaled; }

  QueuePairCounters& counters_;
  SendRing<HeldWork> ring_;
  uint32_t reported_ = 0;
  uint32_t done_ = 0;
  uint32_t next_ = 0;
  uint32_t begun_ = 0;
  uint32_t tail_ = 0;
  wire::Psn una_;
  wire::Psn effect_psn_;  ///< Of the response whose effect is under way.
  wire::Psn next_psn_;
  wire::Psn high_psn_;
  PathMtu mtu_;
  FlightWindow window_;
  uint32_t reads_outstanding_ = 0;  ///< READs and atomics under way.
  /// PSNs in flight that are those of READ responses, but for one of each READ.
  uint32_t response_psns_ = 0;
  SendCredits credits_;
  wire::Psn probe_psn_;
  wire::Psn rnr_psn_;  ///< The packet that was refused last.

  Nanos deadline_ = kNever;
  Nanos probe_deadline_ = kNever;
  Nanos ack_timeout_ = kNever;
  uint8_t max_rd_atomic_ = 0;
  uint8_t backoff_ = 0;  ///< Timeouts since the last progress, up to kMaxBackoff.
  uint8_t retry_count_ = 0;
  uint8_t retries_left_ = 0;
  uint8_t rnr_retry_ = 0;
  uint8_t rnr_retries_left_ = 0;
  const bool signal_all_;
  bool selective_ = false;
  bool has_lost_ = false;      ///< lost_->any()
  uint8_t probe_backoff_ = 0;  ///< Probes since the last response.
  bool holding_ = false;
  bool waiting_rnr_ = false;  ///< For rnr_psn_; deadline_ is that of the wait.
  bool executing_local_ = false;
  bool probing_ = false;    ///< A message beyond the credits was begun at probe_psn_.
  bool resending_ = false;  ///< Gone back for a NAK or a gap, and no progress since.
  bool doomed_ = false;
  bool failed_ = false;
  bool flushing_ = false;
  WcStatus doomed_status_ = WcStatus::kSuccess;
  WcStatus head_status_ = WcStatus::kWrFlushErr;  ///< Of the work done_, once flushing.
  uint32_t doomed_index_ = 0;
  Resend resend_;
  Failure failure_;
  // Selective repeat alone.
  bool hears_maps_ = false;                      ///< Of this responder, since it was agreed.
  Nanos round_began_ = kNever;                   ///< kNever: with the next packet.
  wire::Psn round_psn_;                          ///< From here on all was sent in this round.
  Nanos round_trip_;                             ///< Smoothed; 0: not measured yet.
  wire::Psn heard_;                              ///< All before it was executed; from una_ on.
  wire::Psn searched_;                           ///< Lost responses before it are known.
  const std::unique_ptr<SelectiveResend> lost_;  ///< Null: it is not offered.
  const std::unique_ptr<PacketSet> placed_;      ///< Responses that came early; null like lost_.
};

}  // namespace uroce::transport
