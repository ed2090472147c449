// SPDX-License-Identifier: Apache-2.0
// When one flow may send its next packet (docs/protocol/congestion.md, section 8).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/environment.h"
#include "pipeline/congestion/pacer.h"
#include "pipeline/congestion/reaction_point.h"

namespace uroce::congestion {

class FlowRate;

/// A flow that has been told to send less, until its rate is back.
struct LimitedFlow {
  ReactionPoint point;
  Pacer pacer;
  const Environment* environment;
  FlowRate* owner;
};

/// Those of a worker: a bounded number, side by side. One thread.
class LimitedFlows {
 public:
  /// The only allocation; memory is touched as flows use it.
  explicit LimitedFlows(uint32_t capacity) { flows_.reserve(capacity); }
  LimitedFlows(const LimitedFlows&) = delete;
  LimitedFlows& operator=(const LimitedFlows&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(flows_.size()); }
  /// Looks at one: a flow that sends nothing leaves when its rate is back, too.
  void Tend(Nanos now) {
    if (!flows_.empty()) TendNext(now);
  }

 private:
  friend class FlowRate;
  /// The first CNP of `owner`; null: there is no room.
  LimitedFlow* Begin(FlowRate& owner, const Environment& environment, Nanos now);
  void End(LimitedFlow& flow);
  void TendNext(Nanos now);

  std::vector<LimitedFlow> flows_;
  uint32_t next_ = 0;  ///< Looked at next.
};

/// The pacer of a queue pair, and its reaction point while it has one. All that it sends of data is
/// one flow: requests and READ responses, new and sent again. Acknowledgements and CNPs are none.
/// A flow that nobody has slowed down costs a comparison. It lies where it is. One thread.
class FlowRate {
 public:
  FlowRate() = default;
  FlowRate(const FlowRate&) = delete;
  FlowRate& operator=(const FlowRate&) = delete;

  /// Whether data may leave now.
  bool MaySend(Nanos now) const { return next_send_ <= now; }
  /// When it may.
  Nanos next_send() const { return next_send_; }
  /// Null: its rate is that of the line.
  const ReactionPoint* point() const { return limited_ == nullptr ? nullptr : &limited_->point; }

  /// A data packet has left that takes `bytes` of the wire. Of a READ request `answer_bytes` will
  /// come back: they count as if they left now, so that answers of a responder without a reaction
  /// point come no faster than the rate.
  void OnSent(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now) {
    if (limited_ != nullptr) [[unlikely]]
      OnSentLimited(flows, bytes, answer_bytes, now);
  }
  /// The next packet leaves `gap` later than this one: less than one packet is to be under way.
  void Delay(Nanos now, Nanos gap) { next_send_ = std::max(next_send_, now + gap); }
  /// A CNP, or what counts as one. False: there is no room for its state.
  bool OnCnp(const Environment& environment, LimitedFlows& flows, Nanos now);
  /// Forgets the limit: the queue pair is reset, or ends.
  void Reset(LimitedFlows& flows);

 private:
  friend class LimitedFlows;
  void OnSentLimited(LimitedFlows& flows, uint32_t bytes, uint64_t answer_bytes, Nanos now);

  Nanos next_send_{0};
  LimitedFlow* limited_ = nullptr;
};

}  // namespace uroce::congestion
