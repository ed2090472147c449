// SPDX-License-Identifier: Apache-2.0
// The window of request packets in flight, controlled by losses alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::congestion {

/// Bounds request packets in flight. A READ request counts as one, however many responses it has.
///
/// Go-back-N: the window never exceeds its start value. Each time that all is sent again the window
/// halves, because the resent packets would overload the same bottleneck again; it grows slowly as
/// packets are acknowledged. Selective repeat (pipeline/transport/README.md): the window doubles in
/// each round trip that uses it, up to the responder's own window, so that packets flow on behind a
/// hole until the hole is filled. Single losses change nothing. When a round trip loses more than
/// one packet in eight, the path or the peer is overloaded: the window halves, and grows slowly
/// from then on.
/// Pure, part of a Window.
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

}  // namespace uroce::congestion
