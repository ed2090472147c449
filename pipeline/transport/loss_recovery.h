// SPDX-License-Identifier: Apache-2.0
// Loss recovery and congestion control of a requester: when it may send, what it sends again, when
// it gives up, and the timers by which it does so (docs/protocol/transport.md, section 3.3;
// pipeline/transport/loss-recovery.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/congestion/flow.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/selective_repeat.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

// The timers of a requester: ACK timeout, wait after an RNR NAK, tail loss probe; the round trips
// and retries by which they go (docs/protocol/transport.md, section 3.3).

// Durations that attributes and packets carry as five-bit codes.

/// Local ACK timeout: 4.096 us * 2^code, code 0 means never (docs/protocol/transport.md,
/// section 3.3).
constexpr Nanos AckTimeout(uint8_t code) {
  return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 31));
}

/// The least wait of a requester after an RNR NAK (docs/protocol/transport.md, section 3.3).
constexpr Nanos RnrWait(uint8_t code) {
  constexpr std::array<uint32_t, 32> kTensOfMicroseconds = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Nanos(10'000) * kTensOfMicroseconds[code & 31];
}

/// How many retries a requester has without progress (docs/protocol/transport.md, section 3.3).
/// A count of retries that progress refills. Pure.
class RetryBudget {
 public:
  /// Range: 0 to 7.
  void Configure(uint8_t limit) { limit_ = left_ = limit; }
  void Refill() { left_ = limit_; }
  /// False: none is left.
  [[nodiscard]] bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  uint8_t limit() const { return limit_; }
  /// The number of retries taken since the last refill.
  uint8_t taken() const { return static_cast<uint8_t>(limit_ - left_); }

 private:
  uint8_t limit_ = 0;
  uint8_t left_ = 0;
};

/// The ACK timeout of a requester (docs/protocol/transport.md, section 3.3).
/// Pure, owned by a LossRecovery.
class AckTimer {
 public:
  /// `code`: 0 to 31, 0 = no timeout.
  void Configure(uint8_t code) { timeout_ = AckTimeout(code); }
  /// The timeout of the attribute; kNever when the code is 0.
  Nanos timeout() const { return timeout_; }
  /// When the timer expires; kNever while it does not run.
  Nanos deadline() const { return deadline_; }
  bool running() const { return deadline_ != kNever; }

  /// Starts the timer at `now`. Each timeout in a row makes the wait longer. `round_trip` is 0
  /// where no round trip is measured.
  void Start(Nanos now, Nanos round_trip) {
    deadline_ = timeout_ == kNever ? kNever : now + Wait(round_trip);
  }
  void Stop() { deadline_ = kNever; }
  /// Returns true when the timer has expired at `now`. It then counts a timeout and stops.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    backoff_ = std::min<uint8_t>(backoff_ + 1, kMaxBackoff);
    return true;
  }
  /// Resets the count of timeouts: something new was acknowledged, or the queue pair is reset.
  void ForgetTimeouts() { backoff_ = 0; }
  /// True when nothing was acknowledged since the last timeout.
  bool timed_out() const { return backoff_ != 0; }

 private:
  /// Each timeout in a row doubles the next one, up to 4 times the attribute, which is as late as a
  /// requester may expire. A slow peer, which needs more time than the attribute, would otherwise
  /// receive the same packets again and again, and have more work each time.
  static constexpr uint8_t kMaxBackoff = 2;
  /// Where round trips are measured, the timer waits for this many of them, within the same bounds:
  /// a peer that always answers late has not lost the packets.
  static constexpr int64_t kRoundTrips = 3;

  Nanos Wait(Nanos round_trip) const {
    const Nanos longest = timeout_ * (1 << kMaxBackoff);
    return std::max(timeout_ * (1 << backoff_), std::min(round_trip * kRoundTrips, longest));
  }

  Nanos deadline_ = kNever;
  Nanos timeout_ = kNever;
  uint8_t backoff_ = 0;  ///< Timeouts since the last progress, up to kMaxBackoff.
};

/// The wait of a requester after an RNR NAK, before it sends again
/// (docs/protocol/transport.md, section 3.3).
/// Pure, owned by a LossRecovery.
class RnrTimer {
 public:
  /// `retry`: rnr_retry, 0 to 7, 7 = without limit.
  void Configure(uint8_t retry) { retries_.Configure(retry); }
  /// True during a wait: nothing is sent before the deadline.
  bool waiting() const { return deadline_ != kNever; }
  Nanos deadline() const { return deadline_; }
  /// True when an RNR NAK of `psn` says nothing new: the wait is for that packet or a later one.
  bool IsKnown(wire::Psn psn) const { return waiting() && psn_.Since(psn) >= 0; }

  /// Takes one retry. False: no retry is left.
  [[nodiscard]] bool TakeRetry() { return has_no_limit() || retries_.Take(); }
  /// Describes the resend after the wait, by the retry that was taken last.
  Resend resend() const {
    return {.cause = ResendCause::kRnrNak,
            .number = retries_.taken(),
            .limit = has_no_limit() ? Resend::kUnlimited : retries_.limit()};
  }
  /// Waits for `psn`, which was refused.
  void Start(wire::Psn psn, Nanos deadline) {
    psn_ = psn;
    deadline_ = deadline;
  }
  void Stop() { deadline_ = kNever; }
  /// True: the wait has just ended.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    return true;
  }
  /// Something new is acknowledged: all before `una`.
  void OnProgress(wire::Psn una) {
    retries_.Refill();
    // Acknowledged packets before the refused one do not end the wait.
    if (una.Since(psn_) > 0) deadline_ = kNever;
  }

 private:
  static constexpr uint8_t kUnlimited = 7;
  bool has_no_limit() const { return retries_.limit() == kUnlimited; }

  Nanos deadline_ = kNever;
  wire::Psn psn_;  ///< The packet that was refused last.
  RetryBudget retries_;
};

/// The longest silence of a peer that ended without a repeated packet: how late its thread may be
/// without a loss. A silence counts for kMemory at least, and for twice that at most.
/// Pure, owned by a TailLossProbe.
class LongestSilence {
 public:
  void Note(Nanos silence, Nanos now) {
    if (now - began_ >= kMemory) {
      before_ = now - began_ < kMemory * 2 ? newest_ : Nanos(0);
      newest_ = Nanos(0);
      began_ = now;
    }
    newest_ = std::max(newest_, silence);
  }
  Nanos At(Nanos now) const {
    return now - began_ < kMemory * 2 ? std::max(newest_, before_) : Nanos(0);
  }
  void Reset() { newest_ = before_ = Nanos(0); }

 private:
  static constexpr Nanos kMemory{1'000'000'000};

  Nanos began_{0};  ///< Since then newest_ counts.
  Nanos newest_{0};
  Nanos before_{0};  ///< Of the kMemory before began_.
};

/// The timer of tail loss probes: a requester that has received nothing for some round trips
/// resends a packet (pipeline/transport/loss-recovery.md).
/// Each probe without an answer doubles the wait for the next one. A wait has kParts parts, and a
/// look at the timer ends at most one of them: an owner that has stood still looks at what arrived
/// meanwhile before it looks at the timer again, and nothing is sent again that only lies there.
/// A peer whose thread had no CPU was silent without a loss: the wait grows with such silences.
/// Pure, owned by a LossRecovery.
class TailLossProbe {
 public:
  /// The end of this part of the wait.
  Nanos deadline() const { return deadline_; }
  /// Starts the timer at `now` if the probe is due before `ack_timeout` (kNever when there is
  /// none). Range: `round_trip` > 0.
  void Start(Nanos now, Nanos round_trip, Nanos ack_timeout) {
    const Nanos silence = std::min(silences_.At(now) * kSilences, kMostForSilence);
    const Nanos wait =
        std::max({round_trip * kRoundTrips, kLeastWait, silence}) * (int64_t{1} << unanswered_);
    const Nanos longest = ack_timeout == kNever ? kLongestWait : ack_timeout;
    if (unanswered_ == 0) silent_since_ = now;
    part_ = Nanos(wait.count() / kParts);
    parts_left_ = kParts;
    deadline_ = wait < longest ? now + part_ : kNever;
  }
  void Stop() { deadline_ = kNever; }
  /// True when a probe is due at `now`. The timer is then stopped.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = --parts_left_ == 0 ? kNever : now + part_;
    if (parts_left_ != 0) return false;
    unanswered_ = std::min<uint8_t>(unanswered_ + 1, kMaxUnanswered);
    probed_ = now;
    return true;
  }
  /// A response has come that tells of a loss, or tells nothing of the time before it.
  void OnResponse() { unanswered_ = 0; }
  /// A response that tells of no loss has come, while round trips take `round_trip`.
  void OnResponse(Nanos now, Nanos round_trip) {
    // The time behind the deadline is that of an owner that has not looked yet, not of the peer.
    if (deadline_ != kNever && EndedByItself(now, round_trip)) {
      silences_.Note(std::min(now, deadline_) - silent_since_, now);
    }
    unanswered_ = 0;
  }
  void Reset() {
    deadline_ = kNever;
    unanswered_ = 0;
    silences_.Reset();
  }

 private:
  /// A probe waits for kRoundTrips without a response, and at least for kLeastWait:
  /// acknowledgements wait for the end of a burst, and programs wait for a CPU.
  static constexpr int64_t kRoundTrips = 3;
  static constexpr Nanos kLeastWait{100'000};
  /// It waits for kSilences times the longest silence that ended by itself, but for no more than
  /// kMostForSilence because of that.
  static constexpr int64_t kSilences = 2;
  static constexpr Nanos kMostForSilence{8'000'000};
  /// What answers a probe comes about a round trip after it. A response that comes sooner than half
  /// of one, or later than this many, would have come without the probe.
  static constexpr int64_t kLateRoundTrips = 4;
  /// The longest wait for a probe of a queue pair without an ACK timeout.
  static constexpr Nanos kLongestWait{64'000'000};
  static constexpr uint8_t kMaxUnanswered = 16;
  static constexpr uint8_t kParts = 4;

  bool EndedByItself(Nanos now, Nanos round_trip) const {
    if (unanswered_ == 0) return true;
    const Nanos since_probe = now - probed_;
    return since_probe * 2 < round_trip || since_probe > round_trip * kLateRoundTrips;
  }

  Nanos deadline_ = kNever;
  Nanos part_{0};
  uint8_t parts_left_ = 0;  ///< Of the wait that runs.
  uint8_t unanswered_ = 0;  ///< Probes since the last response.
  Nanos silent_since_{0};   ///< The last response, or when the first packet after it was sent.
  Nanos probed_{0};         ///< The last probe.
  LongestSilence silences_;
};

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
  bool has_taken_any() const { return selective_.has_taken_any(); }
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
  /// `has_heard_all`: no packet waits that has come before `now`. Otherwise no probe is sent: the
  /// answer may be among them.
  [[nodiscard]] bool OnDeadline(Nanos now, bool has_heard_all = true);
  /// The time between two requests, where congestion control allows less than one packet in flight;
  /// otherwise 0.
  Nanos send_gap() const { return window_.gap(); }
  /// What was lost since the last call, according to NAKs, timeouts and responses.
  Losses TakeLosses() { return std::exchange(losses_, {}); }
  /// The newest round-trip time; 0 when none was measured since the last call.
  Nanos TakeRoundTrip() { return round_trip_.TakeNewest(); }
  const congestion::Window& window() const { return window_; }
  /// See RcQueuePair.
  void MoveTo(const congestion::Environment& environment) { window_.MoveTo(environment); }
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
  Nanos peer_delay_{0};  ///< That the newest response told (pipeline/wire/packet.h).
  SelectiveRepeat selective_;
  Losses losses_;
};

}  // namespace uroce::transport
