// SPDX-License-Identifier: Apache-2.0
// Loss recovery and congestion control of a requester: when it may send, what it sends again, and
// when it gives up (docs/protocol/transport.md, section 3.3; pipeline/transport/loss-recovery.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/congestion/window.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/selective_repeat.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/timers.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Go-back-N: decides when a requester resends all from the oldest unacknowledged packet on, and
/// whether that costs a retry (docs/protocol/transport.md, section 3.3).
/// Only decides: the send position is in SendWorks. Each loss goes back once: until something is
/// acknowledged, a further NAK tells of the same loss. A NAK after a timeout costs no retry: the
/// timeout has taken one for the same round. Selective resends cost no retry either: a responder
/// reports one missing packet many times within an ACK timeout, so only ACK timeouts since the last
/// progress count.
/// Pure, owned by a LossRecovery.
class GoBackN {
 public:
  enum class Decision : uint8_t { kStay, kGoBack, kExhausted };

  void Configure(uint8_t retry_count) { retries_.Configure(retry_count); }
  /// Something was acknowledged.
  void OnProgress() {
    retries_.Refill();
    going_back_ = false;
  }
  /// A NAK or implied NAK that comes from now on tells of a new loss, and goes back once more.
  void ForgetEvent() { going_back_ = false; }

  /// The ACK timer has expired. Never returns kStay.
  [[nodiscard]] Decision OnTimeout() {
    if (!retries_.Take()) return Decision::kExhausted;
    resend_ = {
        .cause = ResendCause::kAckTimeout, .number = retries_.taken(), .limit = retries_.limit()};
    // A NAK of a packet that is resent now tells of a new loss, whatever came before.
    going_back_ = false;
    return Decision::kGoBack;
  }
  /// A NAK or implied NAK has come. `is_back`: the requester has gone back already, and has resent
  /// nothing yet. `timed_out`: a timeout has taken the retry for this round.
  [[nodiscard]] Decision OnLoss(ResendCause cause, bool is_back, bool timed_out) {
    // Some responders send a NAK 0x60 right after an RNR NAK (golden/linux-rxe-5-rnr).
    if (going_back_ || is_back) return Decision::kStay;
    const bool counts = !timed_out;
    if (counts && !retries_.Take()) return Decision::kExhausted;
    resend_ = {.cause = cause,
               .number = counts ? retries_.taken() : uint8_t{0},
               .limit = retries_.limit()};
    going_back_ = true;
    return Decision::kGoBack;
  }
  /// Goes back without taking a retry. Returns false when it has gone back for this loss already.
  bool OnFreeLoss(ResendCause cause) {
    if (going_back_) return false;
    going_back_ = true;
    resend_ = {.cause = cause, .limit = retries_.limit()};
    return true;
  }
  /// The requester has gone back for an RNR NAK.
  void OnRnrNak(const Resend& resend) { resend_ = resend; }

  /// True when it has gone back for a NAK or a gap, and nothing was acknowledged since.
  bool going_back() const { return going_back_; }
  /// Why packets are sent again.
  const Resend& resend() const { return resend_; }

 private:
  RetryBudget retries_;
  bool going_back_ = false;
  Resend resend_;
};

/// When a requester may send, what it sends again, and when it gives up.
///
/// The requester calls it before and after it sends, on each response and on each deadline. It
/// moves the send position of `works` back, and knows nothing of memory, completions and failures:
/// it returns false when its retries are exhausted, and the requester fails.
///
/// Each part owns its state; this class passes an event on to the parts that it concerns.
/// Congestion control is one of the parts: MaySend asks it, and it learns of acknowledgements,
/// losses, round trips and each time that go-back-N resends all.
/// Pure, owned by a Requester.
class LossRecovery {
 public:
  LossRecovery(const RcConfig& config, SendWorks& works, QueuePairCounters& counters);

  // ---- state ----
  void Configure(const QueuePairAttributes& attributes);
  /// The first request is about to be sent.
  void Start();
  /// Forgets which single packets are lost: when the first PSN is set, or a work fails.
  void ForgetLost() { selective_.Start(works_.una()); }
  /// Sets whether the responder agrees to selective repeat.
  void SetSelective(bool agreed);
  bool selective() const { return selective_.active(); }
  bool offers_selective() const { return selective_.offered(); }
  void Reset();
  /// Stops all timers: the requester has failed, or is flushed.
  void Stop();

  // ---- before sending ----
  /// True during an RNR wait: nothing may leave.
  bool waiting() const { return rnr_.waiting(); }
  /// True when a single lost packet is to be resent. It leaves first, whatever MaySend says.
  bool has_lost() const { return selective_.has_lost(); }
  /// Whether the next packet in order may leave while `requests_in_flight` are outstanding.
  bool MaySend(uint32_t requests_in_flight) const { return window_.MaySend(requests_in_flight); }
  /// Whether the packet that is sent now asks for an ACK: because nothing may leave behind it, or
  /// because congestion control measures round trips.
  bool AsksForAck(uint32_t requests_in_flight) const {
    return window_.AsksForAck(requests_in_flight);
  }

  // ---- sending ----
  /// A packet is about to leave while the next one in order is `psn`.
  void BeforeSend(wire::Psn psn, Nanos now) {
    if (selective_.active()) round_trip_.OnSent(psn, now);
  }
  /// The packet `psn`, the next one in order, has left, with `requests_in_flight` before it.
  /// `asks`: it asks for an ACK that does not wait for other packets.
  void OnSent(wire::Psn psn, uint32_t requests_in_flight, bool asks, Nanos now) {
    if (!timer_.running()) RestartTimers(now);
    window_.OnSent(psn, requests_in_flight, asks, now);
  }
  /// The next packet may not leave for now. The ACK timer runs as if the packet were sent and lost.
  void OnHeld(Nanos now) {
    if (!timer_.running()) timer_.Start(now, round_trip_.smoothed());
  }
  /// Why go-back-N sends packets again.
  const Resend& resend() const { return go_back_.resend(); }
  /// Fills in the lost packet that is resent next. Needs has_lost().
  void FillLost(TxPacket& packet);

  // ---- acknowledgements ----
  /// A response other than a selective acknowledgement has come, whatever it acknowledges.
  void OnResponse(const wire::TransportHeader& response, Nanos now);
  /// `packets` new PSNs were acknowledged, up to the una of the works, as the congestion window
  /// counts them.
  void OnAcknowledged(uint32_t packets, Nanos now);
  /// A selective acknowledgement of all before its PSN has come. OnAcknowledged follows.
  void OnMapOf(const wire::TransportHeader& response, Nanos now);
  /// The map of that selective acknowledgement. Called after OnAcknowledged for it.
  void OnMap(wire::Psn base, const wire::KeptMap& map, Nanos now);

  // ---- responses before their turn: selective() ----
  /// Whether a response to the packet `psn` can be taken before its turn.
  bool ReachesEarly(wire::Psn psn) const {
    return Distance(works_.una(), psn) < PacketSet::kWindow;
  }
  bool HasTaken(wire::Psn psn) const { return selective_.HasTaken(psn); }
  void OnEarlyResponse(wire::Psn psn) { selective_.OnEarlyResponse(psn); }
  void OnTaken(wire::Psn psn) { selective_.OnTaken(psn); }
  /// The response whose turn it was is taken: responses taken early may be next in turn.
  void OnResponseTaken(Nanos now);

  // ---- losses; false: the retries are exhausted ----
  /// A NAK of `psn`, which acknowledges all before. `in_turn`: no response before it is missing.
  [[nodiscard]] bool OnSequenceNak(wire::Psn psn, bool in_turn);
  /// An implied NAK: the responder has answered all before `end`, and the oldest READ or atomic is
  /// incomplete.
  [[nodiscard]] bool OnResponsePassed(wire::Psn end);
  /// Whether an RNR NAK of `psn` tells nothing new.
  bool IsKnownRnr(wire::Psn psn) const { return rnr_.IsKnown(psn); }
  /// An RNR NAK: all is sent again from `deadline` on. `in_turn`: no response was passed over.
  [[nodiscard]] bool OnRnrNak(wire::Psn psn, Nanos deadline, bool in_turn);

  // ---- timers; false: the retries are exhausted ----
  [[nodiscard]] bool OnDeadline(Nanos now);
  /// The time between two requests, where congestion control allows less than one packet in flight;
  /// otherwise 0.
  Nanos send_gap() const { return window_.gap(); }
  /// What was lost since the last call, according to NAKs, timeouts and responses.
  Losses TakeLosses() { return std::exchange(losses_, {}); }
  /// The newest round-trip time; 0 when none was measured since the last call.
  Nanos TakeRoundTrip() { return round_trip_.TakeNewest(); }
  const congestion::Window& window() const { return window_; }
  Nanos deadline() const {
    return std::min({timer_.deadline(), rnr_.deadline(), probe_.deadline()});
  }

 private:
  [[nodiscard]] bool CarryOut(GoBackN::Decision decision);
  void GoBack();
  /// A NAK names one hole: resends that packet, or all from it on if the responder sends no maps.
  void OnHoleAt(wire::Psn psn);
  /// Resends all from `psn` on. Packets before it were executed; their responses may still come.
  void GoBackTo(wire::Psn psn);
  /// Resends all from `psn` on, after a map of a whole KeptWindow: nothing behind the map is kept.
  void ResendBehind(wire::Psn psn);
  void EndRound(Nanos now);
  /// Selective repeat: `packets` packets are now known to be lost.
  void NoteLost(uint32_t packets);
  void OnResponsesLost(bool found) {
    counters_.implied_nak_seq_err += found;
    losses_.responses |= found;
  }
  void RestartTimers(Nanos now);
  void StopTimers();
  void StartProbeTimer(Nanos now);
  /// Resends one packet after a long silence, so that the answer tells what is missing.
  void Probe(Nanos now);

  QueuePairCounters& counters_;
  SendWorks& works_;
  congestion::Window window_;
  AckTimer timer_;
  RnrTimer rnr_;
  GoBackN go_back_;
  RoundTrip round_trip_;
  TailLossProbe probe_;
  Nanos peer_delay_{0};  ///< That the newest response told (pipeline/wire/acknowledgement.h).
  SelectiveRepeat selective_;
  Losses losses_;
};

}  // namespace uroce::transport
