// SPDX-License-Identifier: Apache-2.0
// The window of request packets that a requester may have in flight, for every profile.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/delay_window.h"
#include "pipeline/congestion/environment.h"
#include "pipeline/congestion/loss_window.h"
#include "pipeline/wire/psn.h"

namespace uroce::congestion {

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
