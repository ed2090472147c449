// SPDX-License-Identifier: Apache-2.0
// Deficit round robin: flows take turns, which are fair in bytes. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::datapath {

/// One contender. Embedded in its owner; in at most one DeficitRoundRobin.
struct Flow {
  Flow* next = nullptr;
  Flow* previous = nullptr;
  int64_t deficit_bytes = 0;  ///< What it may still send in this round. Below 0: sent ahead.
  bool queued = false;
};

/// Flows that have something to send, each served a quantum of bytes a round. A flow may overdraw
/// by one packet and pays for it in the next round, so no packet's size need be known beforehand.
class DeficitRoundRobin {
 public:
  /// `quantum_bytes` > 0: a short one lets others wait less, a long one takes a flow's state into
  /// the cache less often.
  explicit DeficitRoundRobin(int64_t quantum_bytes) : quantum_bytes_(quantum_bytes) {}

  bool empty() const { return head_ == nullptr; }

  /// Puts `flow` at the end of the round.
  void Add(Flow& flow) {
    if (flow.queued) return;
    flow.queued = true;
    // A flow that comes back gains nothing by having been away, and loses no debt.
    flow.deficit_bytes = std::min<int64_t>(flow.deficit_bytes, 0) + quantum_bytes_;
    Append(flow);
  }

  void Remove(Flow& flow) {
    if (!flow.queued) return;
    flow.queued = false;
    flow.deficit_bytes = std::min<int64_t>(flow.deficit_bytes, 0);
    Unlink(flow);
  }

  /// The flow whose turn it is; null when empty.
  Flow* Current() {
    while (head_ != nullptr && head_->deficit_bytes <= 0) {
      Flow& flow = *head_;
      flow.deficit_bytes += quantum_bytes_;
      if (flow.next == &flow) continue;  // Alone: no one to give way to.
      head_ = flow.next;
    }
    return head_;
  }

  /// Counts `bytes` as sent by `flow`, queued or not. The debt is bounded, so that Current ends.
  static void Charge(Flow& flow, uint32_t bytes) {
    flow.deficit_bytes = std::max(flow.deficit_bytes - bytes, -kMaxDebtBytes);
  }

 private:
  static constexpr int64_t kMaxDebtBytes = 64 * 1024;

  void Append(Flow& flow) {
    if (head_ == nullptr) {
      head_ = flow.next = flow.previous = &flow;
      return;
    }
    flow.next = head_;
    flow.previous = head_->previous;
    flow.previous->next = &flow;
    head_->previous = &flow;
  }

  void Unlink(Flow& flow) {
    if (flow.next == &flow) {
      head_ = nullptr;
    } else {
      flow.next->previous = flow.previous;
      flow.previous->next = flow.next;
      if (head_ == &flow) head_ = flow.next;
    }
    flow.next = flow.previous = nullptr;
  }

  const int64_t quantum_bytes_;
  Flow* head_ = nullptr;  // Of a circular list.
};

}  // namespace uroce::datapath
