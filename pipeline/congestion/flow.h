// SPDX-License-Identifier: Apache-2.0
// How fast one flow may send: its rate, which says when its next packet leaves
// (docs/protocol/congestion.md, section 8), and its window of request packets in flight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/wire/packet.h"

namespace uroce::congestion {

// Computes the next send time of a flow from its rate.

/// After a pause a flow may send at once at most kMaxBurstBytes, a burst of a port, and at most
/// the bytes of its rate in kMaxBurstTime, the time by which a worker may be late.
inline constexpr int64_t kMaxBurstBytes = 64 * 1024;
inline constexpr Nanos kMaxBurstTime{100'000};

/// How long `bytes` take at `rate_bps`. Range: `rate_bps` >= 1.
inline Nanos TimeOf(double bytes, double rate_bps) {
  return Nanos(std::llrint(bytes * 8e9 / rate_bps));
}

/// A rate, stored so that the calculation for each packet needs no division.
class Pacer {
 public:
  double rate_bps() const { return rate_bps_; }
  /// Packets that leave late by at most `credit` do not lower the rate: the next ones leave sooner.
  /// Range: `rate_bps` >= 1.
  void SetRate(double rate_bps, Nanos credit = kMaxBurstTime) {
    rate_bps_ = rate_bps;
    nanos_per_byte_ = 8e9 / rate_bps;
    credit_ = std::min(credit, TimeOf(kMaxBurstBytes, rate_bps));
  }
  /// A packet of `bytes`, due at `next_send`, leaves at `now`: when the packet after it may leave.
  Nanos NextSend(Nanos next_send, Nanos now, double bytes) const {
    const Nanos time(std::llrint(bytes * nanos_per_byte_));
    return std::max(next_send, now - credit_) + time;
  }

 private:
  double rate_bps_ = 0;
  double nanos_per_byte_ = 0;
  Nanos credit_;
};

class FlowRate;

/// The state of a flow that a CNP has slowed down, until its rate is back at the line rate.
struct LimitedFlow {
  ReactionPoint point;
  Pacer pacer;
  const Environment* environment;
  FlowRate* owner;
  Nanos allowed{0};  ///< When the rate allows the next packet.
};

/// The limited flows of a worker: an array of bounded size. One thread.
class LimitedFlows {
 public:
  /// Allocates all memory. Pages are touched only when flows use them.
  explicit LimitedFlows(uint32_t capacity) { flows_.reserve(capacity); }
  LimitedFlows(const LimitedFlows&) = delete;
  LimitedFlows& operator=(const LimitedFlows&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(flows_.size()); }
  /// Checks one flow, in turn: one that waits at a rate which has risen since waits less, and one
  /// whose rate is back is removed, even if it sends nothing.
  void Tend(Nanos now) {
    if (!flows_.empty()) TendNext(now);
  }

 private:
  friend class FlowRate;
  /// Adds the flow of `owner` at its first CNP. Null when there is no room.
  LimitedFlow* Begin(FlowRate& owner, const Environment& environment, Nanos now);
  void End(LimitedFlow& flow);
  void TendNext(Nanos now);
  static void Hasten(LimitedFlow& flow, Nanos now);

  std::vector<LimitedFlow> flows_;
  uint32_t next_ = 0;  ///< The flow that Tend checks next.
};

/// The pacer of a queue pair, and its reaction point while it has one. All data of a queue pair is
/// one flow: requests and READ responses, new and sent again, but no acknowledgements and CNPs.
/// A flow without a limit costs a comparison per packet. The object must not move. One thread.
class FlowRate {
 public:
  FlowRate() = default;
  FlowRate(const FlowRate&) = delete;
  FlowRate& operator=(const FlowRate&) = delete;

  /// Whether a data packet may leave at `now`.
  bool MaySend(Nanos now) const { return next_send_ <= now; }
  /// The earliest time of the next data packet.
  Nanos next_send() const { return next_send_; }
  /// Null when no CNP limits the flow.
  const ReactionPoint* point() const { return limited_ == nullptr ? nullptr : &limited_->point; }

  /// Whether OnSent must be called for each data packet.
  bool is_limited() const { return limited_ != nullptr || limit_.rate_bps() != 0; }
  /// Sets a limit that lasts until it is changed, whatever CNPs say; 0 ends it. Range: 0 or >= 1.
  void SetLimit(double bps);
  double limit_bps() const { return limit_.rate_bps(); }

  /// A data packet of `bytes` on the wire has left. `answer_bytes` is the size of the responses to
  /// a READ request: they count as if they left now, so that responses from a responder without a
  /// reaction point come no faster than the rate.
  void OnSent(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now) {
    if (is_limited()) [[unlikely]]
      OnSentLimited(flows, bytes, answer_bytes, now);
  }
  /// The next packet leaves no earlier than `now` + `gap`.
  void Delay(Nanos now, Nanos gap) { next_send_ = std::max(next_send_, now + gap); }
  /// A CNP, or an event that counts as one. False: there is no room for the flow's state.
  bool OnCnp(const Environment& environment, LimitedFlows& flows, Nanos now);
  /// Forgets what CNPs said: the queue pair is reset, or ends. The limit of SetLimit remains.
  void Reset(LimitedFlows& flows);

 private:
  friend class LimitedFlows;
  void OnSentLimited(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now);
  void PaceByPoint(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now);

  Nanos next_send_{0};
  Nanos next_by_limit_{0};  ///< The time that limit_ allows.
  Pacer limit_;             ///< Has a rate of 0 when no limit is set.
  LimitedFlow* limited_ = nullptr;
};

// The window of request packets that a requester may have in flight, for every profile: controlled
// by round-trip times (Swift, SIGCOMM 2020) or by losses alone.

/// The window of request packets in flight, controlled by losses alone.
/// Bounds request packets in flight. A READ request counts as one, however many responses it has.
///
/// Go-back-N: the window never exceeds its start value. Each time that all is sent again the window
/// halves, because the resent packets would overload the same bottleneck again; it grows slowly as
/// packets are acknowledged. Selective repeat (pipeline/transport/loss-recovery.md): the window
/// doubles in each round trip that uses it, up to the responder's own window, so that packets flow
/// on behind a hole until the hole is filled. Single losses change nothing. When a round trip loses
/// more than one packet in eight, the path or the peer is overloaded: the window halves, and grows
/// slowly from then on. Pure, part of a Window.
class LossWindow {
 public:
  static constexpr uint32_t kMostPackets = 2048;
  /// Selective repeat: up to one packet in kTolerable of a window may be lost.
  static constexpr uint32_t kTolerable = 8;

  /// `least` is the start value, > 0. If it exceeds kMostPackets, the window does not grow.
  explicit LossWindow(uint32_t least) : least_(least), packets_(least) {}

  uint32_t packets() const { return packets_; }
  /// Whether one more request packet may leave while `in_flight` are under way.
  bool MaySend(uint32_t in_flight) const { return in_flight < packets_; }
  /// Whether the window is full once the next packet has left.
  bool IsFullAfter(uint32_t in_flight) const { return in_flight + 1 >= packets_; }
  /// Resets the window: selective repeat begins or ends, or the queue pair is reset.
  void Start() {
    packets_ = least_;
    lost_ = acknowledged_ = 0;
    slow_ = false;
  }
  /// Go-back-N: all from a lost packet on is sent again.
  void OnGoBack() {
    packets_ = std::max(std::min(least_, kFewest), packets_ / 2);
    acknowledged_ = 0;
  }
  /// Go-back-N: `packets` more have arrived.
  void OnAcknowledged(uint32_t packets) {
    if (packets_ >= least_) return;
    acknowledged_ += packets;
    if (acknowledged_ < packets_) return;
    acknowledged_ = 0;
    packets_ = std::min(least_, packets_ + kSlowStep);
  }
  /// Selective repeat: `packets` more are known to be lost.
  void OnLost(uint32_t packets) { lost_ += packets; }
  /// Selective repeat: a round trip has ended, with `in_flight` packets under way.
  void OnRound(uint32_t in_flight) {
    if (lost_ * kTolerable > packets_) {
      packets_ = std::max(least_, packets_ / 2);
      slow_ = true;
    } else if (in_flight * 2 > packets_ && packets_ < kMostPackets) {
      packets_ = std::min(kMostPackets, packets_ + (slow_ ? kSlowStep : packets_));
    }
    lost_ = 0;
  }

 private:
  static constexpr uint32_t kSlowStep = 16;
  static constexpr uint32_t kFewest = 8;

  uint32_t least_;
  uint32_t packets_;
  uint32_t lost_ = 0;          ///< In this round.
  uint32_t acknowledged_ = 0;  ///< Since the window changed last.
  bool slow_ = false;
};

/// The window of request packets in flight, controlled by round-trip times (Swift, SIGCOMM 2020).
/// One round trip is measured at a time, from a packet that asks for an acknowledgement to the
/// response that acknowledges it, so that each sample shows the effect of the last change. Samples
/// leave out the time in which this side's thread did not run (Environment::stalled), and the
/// responder's, as far as it tells. A sample is not used when the responder delayed it by
/// acknowledging many later packets with it, when READs in front of it delayed it, or when a packet
/// was lost: it tells nothing of the network.
///
/// The target delay depends on the path, and is higher for small windows. Below the target a window
/// that was full grows: it doubles each round trip at first, then grows by `ai`, and by more after
/// kLowRounds such round trips in a row. Above the target it shrinks once in a round trip, by the
/// excess of the shorter one of the last two, because a thread of the peer that did not run for
/// some milliseconds delays one. A window of few packets becomes a gap between packets.
///
/// A flow that starts while a queue is full takes the queue's delay for that of the path, and would
/// keep the queue full while other flows slow down. So a flow with a long base delay sometimes
/// looks at the path: it sends little for two round trips, in which its own queue drains. If the
/// base delay does not shrink, the next look comes later.
///
/// A peer that does not tell how long its threads made packets wait may be a kernel, whose threads
/// wait milliseconds for a CPU: then a round trip is often long, but a queue of the network makes
/// all of them long. So the window shrinks after kLongRounds long ones in a row, by the excess of
/// the shortest, and no further than to kByLosses packets. Up to there losses alone control it: it
/// grows by `ai` in each round trip that it was full in, and a loss shrinks it. Where so few
/// packets take very different times, the peer waits: their average counts as the path's delay from
/// then on, until a loss. Pure, part of a Window.
class DelayWindow {
 public:
  /// Resets the window to initial_cwnd. It may grow to `most` packets. `tells_waits`: whether the
  /// peer tells how long its threads made packets wait.
  void Start(const DelaySettings& settings, uint32_t most, uint32_t mtu_bytes, bool tells_waits);
  /// Sets the largest window, in packets, and what the peer tells.
  void SetPeer(uint32_t most, bool tells_waits);

  uint32_t packets() const { return (window_ + kOne - 1) / kOne; }
  /// The time between two packets, where the window is below kPaced; otherwise 0. A long pause of
  /// a host, which looks like a round trip, stops no flow for longer than kMostGap.
  Nanos gap() const {
    if (window_ >= kPaced) [[likely]]
      return Nanos(0);
    // A window of whole packets bounds them by itself, if their answers take longer than wanted.
    const uint32_t delay_ns = window_ < kOne ? delay_ns_ : std::min(delay_ns_, target_ns_);
    return std::min(Nanos(static_cast<int64_t>(delay_ns) * kOne / window_), kMostGap);
  }
  /// Whether the next packet should ask for an acknowledgement, so that each window has some.
  bool WantsAck() const {
    return unasked_ + 1u >= std::min(packets() / kAcksOfWindow, kMostUnasked);
  }

  /// A packet leaves. `asks`: it asks for an acknowledgement that does not wait for other packets.
  /// `fills`: the window is full with it.
  void OnSent(wire::Psn psn, bool asks, bool fills, Nanos now, Nanos stalled) {
    was_full_ |= fills;
    unasked_ = asks ? 0 : static_cast<uint16_t>(unasked_ + 1);
    if (!asks || began_ != kNever) return;
    began_ = now;
    stalled_ = stalled;
    psn_ = psn;
  }
  /// All before `end` is acknowledged. `stalled`: with the time for which the responder's thread
  /// made the packets wait.
  void OnAcknowledged(const DelaySettings& settings, wire::Psn end, Nanos now, Nanos stalled) {
    if (began_ == kNever || end.Since(psn_) <= 0) return;
    EndSample(settings, static_cast<uint32_t>(end.Since(psn_)) - 1, now, stalled);
  }
  /// Drops the sample under way: a packet is lost or sent again, so the sample tells nothing.
  void GiveUpSample() { began_ = kNever; }
  /// Shrinks the window: the network or the peer has dropped packets.
  void OnLoss(const DelaySettings& settings);

  /// The newest round-trip time, 0 when there was none; and the shortest of the last 10 to 20 s.
  Nanos delay() const { return Nanos(delay_ns_); }
  Nanos base() const { return Nanos(Base()); }
  /// The target of the round-trip time with the present window.
  Nanos Target(const DelaySettings& settings) const;
  /// The window in thousandths of a packet.
  uint64_t milli_packets() const { return uint64_t{window_} * 1000 / kOne; }

  static constexpr Nanos kMostGap{100'000'000};

 private:
  /// One packet in the unit of windows, which is 1/256 packet.
  static constexpr uint32_t kOne = 256;
  /// Packets are paced below this window.
  static constexpr uint32_t kPaced = 4 * kOne;
  static constexpr uint32_t kAcksOfWindow = 4;
  static constexpr uint32_t kMostUnasked = 64;
  /// The most later packets that the acknowledgement of a sample may cover: a burst.
  static constexpr uint32_t kMostMerged = 32;
  static constexpr uint32_t kWhole = 2 * kOne;
  static constexpr uint32_t kByLosses = 16 * kOne;
  static constexpr uint8_t kLongRounds = 16;
  /// After so many round trips in a row below the target the window grows faster.
  static constexpr uint8_t kLowRounds = 5;
  /// The shortest round trip is used for one to two of these times, because paths change.
  static constexpr Nanos kBaseAge{10'000'000'000};
  /// A look at the path comes kLookAfter base delays after the last one, or up to 2^6 times later.
  /// It uses 1 / kLookWindow of the window, for kLookSamples samples.
  static constexpr int64_t kLookAfter = 16;
  static constexpr uint8_t kMostLookDoublings = 6;
  static constexpr uint32_t kLookWindow = 8;
  static constexpr uint8_t kLookSamples = 2;
  /// After kLowRounds the window grows by 1 / kFastGrowth of itself.
  static constexpr uint32_t kFastGrowth = 4;

  uint32_t Base() const { return std::min(base_ns_, old_base_ns_); }
  void EndSample(const DelaySettings& settings, uint32_t merged, Nanos now, Nanos stalled);
  void NoteBase(uint32_t sample_ns, Nanos now);
  /// Begins a look at the path when one is due, or continues it. True: this sample belongs to the
  /// look.
  bool Look(const DelaySettings& settings, uint32_t sample_ns, Nanos now);
  void EndLook(const DelaySettings& settings);
  /// The part of the target that depends on the path's base delay, in ns.
  int64_t OfPath(const DelaySettings& settings) const;
  /// The target of a path with this base delay.
  static int64_t Scaled(const DelaySettings& settings, int64_t base_ns);
  void Grow(const DelaySettings& settings);
  void Shrink(const DelaySettings& settings, uint32_t delay_ns, int64_t target_ns);
  void SetWindow(const DelaySettings& settings, uint64_t window);
  /// By how much the window grows in a round trip.
  static uint64_t Step(const DelaySettings& settings);
  /// A round trip above the target, of a peer that tells no waits.
  void OnLongRound(const DelaySettings& settings, uint32_t sample_ns, int64_t target_ns);

  uint32_t window_ = kOne;
  uint32_t most_ = 1;
  uint32_t delay_ns_ = 0;
  uint32_t target_ns_ = 0;             ///< At the newest sample.
  uint32_t base_ns_ = UINT32_MAX;      ///< The shortest since base_began_.
  uint32_t old_base_ns_ = UINT32_MAX;  ///< The shortest of the period before.
  Nanos base_began_{0};
  Nanos looked_{0};             ///< The start of the last look at the path.
  uint32_t look_base_ns_ = 0;   ///< Base() at that time.
  uint32_t kept_window_ = 0;    ///< The window to restore after the look.
  uint8_t look_samples_ = 0;    ///< Samples left in the look.
  uint8_t look_doublings_ = 0;  ///< How often the time between looks doubled.
  Nanos began_ = kNever;        ///< Start of the sample; kNever when there is none.
  Nanos stalled_{0};            ///< Environment::stalled at that time.
  wire::Psn psn_;
  uint16_t unasked_ = 0;  ///< Packets since one asked for an acknowledgement.
  uint8_t low_rounds_ = 0;
  bool starting_ = true;   ///< No sample was above the target yet.
  bool was_full_ = false;  ///< The window was full in this round trip.
  bool tells_waits_ = true;
  uint64_t sum_long_ns_ = 0;
  uint32_t with_waits_ns_ = 0;  ///< The average round trip of few packets; 0: not known.
  uint8_t long_rounds_ = 0;     ///< In a row, of a peer that tells no waits.
  uint32_t least_long_ns_ = 0;  ///< The shortest of them.
  /// Packets were lost, and since then the window has not grown to kWhole. Only then may it be
  /// below one packet: round trips alone may be long because threads wait for a CPU.
  bool has_lost_ = false;
};

/// Bounds request packets in flight. A READ request counts as one, however many responses it has.
/// Losses control it (LossWindow), or round-trip times and losses (DelayWindow, Profile::kDelay).
/// Pure, owned by a requester's LossRecovery, which passes on the events.
class Window {
 public:
  /// `most` > 0 is the window of go-back-N. `environment` is not owned; null means Profile::kOff.
  Window(uint32_t most, const Environment* environment)
      : environment_(environment), most_(most), losses_(most), packets_(most) {}

  /// From the next Start on, another environment counts: that of the path's priority.
  void SetEnvironment(const Environment* environment) { next_environment_ = environment; }
  /// The same at another worker, at once.
  void MoveTo(const Environment& environment) { environment_ = next_environment_ = &environment; }
  /// The queue pair begins to send, or is reset. Range: `mtu_bytes` > 0.
  void Start(bool selective, uint32_t mtu_bytes);
  /// Selective repeat begins or ends.
  void SetSelective(bool selective);

  uint32_t packets() const { return packets_; }
  /// Whether one more request packet may leave while `in_flight` are under way.
  bool MaySend(uint32_t in_flight) const { return in_flight < packets_; }
  /// Whether the next packet asks for an acknowledgement: the window is full with it, or round
  /// trips are measured.
  bool AsksForAck(uint32_t in_flight) const {
    return in_flight + 1 >= packets_ || (by_delay_ && delay_.WantsAck());
  }
  /// See DelayWindow::gap. An emulated network that catches up takes packets faster than by the
  /// clock: then only windows of one packet or less have gaps.
  Nanos gap() const {
    if (!by_delay_) [[likely]]
      return Nanos(0);
    return environment_->lag != Nanos(0) && packets_ > 1 ? Nanos(0) : delay_.gap();
  }

  /// A packet in order leaves. `measurable`: it asks for an acknowledgement that does not wait for
  /// other packets.
  void OnSent(wire::Psn psn, uint32_t in_flight, bool measurable, Nanos now) {
    if (!by_delay_) return;
    const bool fills = in_flight + 1 >= packets_;
    delay_.OnSent(psn, measurable, fills, now - environment_->lag, environment_->stalled);
  }
  /// `packets` more are acknowledged: now all before `una`. `peer_delay`: how long they waited for
  /// the responder's CPU, as it says.
  void OnAcknowledged(wire::Psn una, uint32_t packets, Nanos now, Nanos peer_delay = Nanos(0)) {
    if (by_delay_) return OnAcknowledgedByDelay(una, now, peer_delay);
    losses_.OnAcknowledged(packets);
    packets_ = losses_.packets();
  }
  /// Go-back-N: all from a lost packet on is sent again.
  void OnGoBack();
  /// All is sent again, whatever the reason.
  void OnAllResent(bool selective);
  /// Selective repeat: `packets` more are known to be lost.
  void OnLost(uint32_t packets);
  /// Selective repeat: a round trip has ended, with `in_flight` packets under way.
  void OnRound(uint32_t in_flight);

  /// Null when round-trip times do not control the window.
  const DelayWindow* delay() const { return by_delay_ ? &delay_ : nullptr; }

 private:
  void OnAcknowledgedByDelay(wire::Psn una, Nanos now, Nanos peer_delay);
  uint32_t MostOf(bool selective) const;
  const DelaySettings& settings() const { return environment_->settings.delay; }

  const Environment* environment_;
  const Environment* next_environment_ = environment_;
  const uint32_t most_;
  bool by_delay_ = false;
  LossWindow losses_;
  DelayWindow delay_;
  uint32_t packets_;
  uint32_t lost_ = 0;  ///< By delay: packets lost in this round of selective repeat.
};

}  // namespace uroce::congestion
