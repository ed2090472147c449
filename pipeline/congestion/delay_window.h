// SPDX-License-Identifier: Apache-2.0
// How many request packets may be in flight, by how long round trips take (Swift, SIGCOMM 2020).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/environment.h"
#include "pipeline/wire/psn.h"

namespace uroce::congestion {

/// A round trip is measured from a packet that asks for an acknowledgement to the response that
/// acknowledges it, one at a time, so each measures what the last change has brought about. Left
/// out of it is what says nothing of the network: the time in which this side's thread did not run
/// (Environment::stalled), and whole samples that a responder has put off by acknowledging many
/// later packets with it, that READs in front of it held up, or in which something was lost.
///
/// A target depends on the path and, as many flows have small windows, on the window. Below it the
/// window grows, if it is used: doubles each round trip at first, then by `ai`, and by more after
/// several such round trips in a row. Above it, it shrinks by how far it is above, once in a round
/// trip, but only from the second round trip on: a thread of the peer that did not run for some
/// milliseconds holds up one. Windows of few packets are a gap between packets.
///
/// Who comes to a queue that stands takes its delay for that of the path, and would keep it
/// standing while others give way. So a flow that believes in a long path sends little for two
/// round trips, now and then: if the queue is its own, it sees the path. The less it learns, the
/// rarer it looks. Pure, part of a Window.
class DelayWindow {
 public:
  /// Begins anew. `most` packets, `initial` at first.
  void Start(const DelaySettings& settings, uint32_t most, uint32_t mtu_bytes);
  /// The window may reach as far from now on.
  void SetMost(uint32_t most);

  uint32_t packets() const { return (window_ + kOne - 1) / kOne; }
  /// Between two packets, where so few are to be in flight that whole ones are too coarse; else 0.
  Nanos gap() const {
    if (window_ >= kPaced) [[likely]]
      return Nanos(0);
    return Nanos(static_cast<int64_t>(delay_ns_) * kOne / window_);
  }
  /// Whether the next packet is to ask for an acknowledgement, so that some come in each window.
  bool WantsAck() const {
    return unasked_ + 1u >= std::min(packets() / kAcksOfWindow, kMostUnasked);
  }

  /// A packet leaves. `asks`: for an acknowledgement, which nothing but itself holds up. `fills`:
  /// the window is full with it.
  void OnSent(wire::Psn psn, bool asks, bool fills, Nanos now, Nanos stalled) {
    was_full_ |= fills;
    unasked_ = asks ? 0 : static_cast<uint16_t>(unasked_ + 1);
    if (!asks || began_ != kNever) return;
    began_ = now;
    stalled_ = stalled;
    psn_ = psn;
  }
  /// All before `end` is acknowledged.
  void OnAcknowledged(const DelaySettings& settings, wire::Psn end, Nanos now, Nanos stalled) {
    if (began_ == kNever || end.Since(psn_) <= 0) return;
    EndSample(settings, static_cast<uint32_t>(end.Since(psn_)) - 1, now, stalled);
  }
  /// Something is lost, or sent again: what is measured now tells nothing.
  void GiveUpSample() { began_ = kNever; }
  /// The network, or the peer, could not hold what was sent.
  void OnLoss(const DelaySettings& settings);

  /// Of the newest round trip, and the shortest of the last seconds; 0: there was none.
  Nanos delay() const { return Nanos(delay_ns_); }
  Nanos base() const { return Nanos(Base()); }
  /// What a round trip may take, with the window as it is.
  Nanos Target(const DelaySettings& settings) const;
  /// In thousandths of a packet.
  uint64_t milli_packets() const { return uint64_t{window_} * 1000 / kOne; }

 private:
  /// Of a packet, in which windows count.
  static constexpr uint32_t kOne = 256;
  /// Below this window packets are paced.
  static constexpr uint32_t kPaced = 4 * kOne;
  static constexpr uint32_t kAcksOfWindow = 4;
  static constexpr uint32_t kMostUnasked = 64;
  /// Packets behind the one that is measured that its acknowledgement may cover: a burst.
  static constexpr uint32_t kMostMerged = 32;
  /// Round trips above the target in a row from which on the window shrinks, and below it from
  /// which on it grows faster.
  static constexpr uint8_t kHighRounds = 2;
  static constexpr uint8_t kLowRounds = 5;
  /// How long the shortest round trip is believed: paths change.
  static constexpr Nanos kBaseAge{10'000'000'000};
  /// A look at the path: after so many of the shortest round trips, with one part in so many of the
  /// window, for so many samples.
  static constexpr int64_t kLookAfter = 16;
  static constexpr uint8_t kMostLookDoublings = 6;
  static constexpr uint32_t kLookWindow = 8;
  static constexpr uint8_t kLookSamples = 2;
  /// The window grows by one part in so many after kLowRounds.
  static constexpr uint32_t kFastGrowth = 4;

  uint32_t Base() const { return std::min(base_ns_, old_base_ns_); }
  void EndSample(const DelaySettings& settings, uint32_t merged, Nanos now, Nanos stalled);
  void NoteBase(uint32_t sample_ns, Nanos now);
  /// Begins a look at the path where one is due, or goes on with it. True: this sample is part of
  /// it.
  bool Look(const DelaySettings& settings, uint32_t sample_ns, Nanos now);
  void EndLook(const DelaySettings& settings);
  /// What a round trip may take by the length of the path, in ns.
  int64_t OfPath(const DelaySettings& settings) const;
  void Grow(const DelaySettings& settings);
  void Shrink(const DelaySettings& settings, uint32_t delay_ns, int64_t target_ns);
  void SetWindow(const DelaySettings& settings, uint64_t window);

  uint32_t window_ = kOne;
  uint32_t most_ = 1;
  uint32_t delay_ns_ = 0;
  uint32_t base_ns_ = UINT32_MAX;      ///< Since base_began_.
  uint32_t old_base_ns_ = UINT32_MAX;  ///< Of the time before.
  Nanos base_began_{0};
  Nanos looked_{0};             ///< When it looked at the path last.
  uint32_t look_base_ns_ = 0;   ///< What it believed then.
  uint32_t kept_window_ = 0;    ///< While it looks at the path: what comes back.
  uint8_t look_samples_ = 0;    ///< Left of the look.
  uint8_t look_doublings_ = 0;  ///< Of the time between two looks.
  Nanos began_ = kNever;        ///< Of the sample; kNever: there is none.
  Nanos stalled_{0};            ///< Environment::stalled at that time.
  wire::Psn psn_;
  uint16_t unasked_ = 0;  ///< Packets since one asked for an acknowledgement.
  uint8_t low_rounds_ = 0;
  uint8_t high_rounds_ = 0;
  bool starting_ = true;   ///< Nothing has been above the target yet.
  bool was_full_ = false;  ///< In this round trip.
};

}  // namespace uroce::congestion
