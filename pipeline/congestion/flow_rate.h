// SPDX-License-Identifier: Apache-2.0
// Pacing of one flow: when it may send its next packet (docs/protocol/congestion.md, section 8).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/settings.h"

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

}  // namespace uroce::congestion
