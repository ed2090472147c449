// SPDX-License-Identifier: Apache-2.0
// Deficit round robin: flows take turns, which are fair in bytes. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce::datapath {

/// One contender. Embedded in its owner; in at most one DeficitRoundRobin.
struct Flow {
  enum class Place : uint8_t { kAway, kFresh, kServed };

  Flow* next = nullptr;
  Flow* previous = nullptr;
  int64_t deficit_bytes = 0;  ///< What it may still send in `round`. Below 0: sent ahead.
  uint32_t round = 0;
  Place place = Place::kAway;
};

/// Flows that have something to send, each served a quantum of bytes a round. A flow may overdraw
/// by one packet and pays for it in the next round, so no packet's size need be known beforehand.
///
/// A flow that comes, and has not sent its quantum in this round, is fresh. Fresh flows are served
/// before the others, as in RFC 8290, so short messages do not wait for a round of long ones. A
/// flow that has sent its quantum waits for the end of the round, whether it stays or comes and
/// goes: it gains nothing by that.
class DeficitRoundRobin {
 public:
  /// `quantum_bytes` > 0: a short one lets others wait less, a long one takes a flow's state into
  /// the cache less often.
  explicit DeficitRoundRobin(int64_t quantum_bytes) : quantum_bytes_(quantum_bytes) {}

  bool empty() const { return fresh_.head == nullptr && served_.head == nullptr; }

  /// Puts `flow` at the end of the fresh flows, or at the end of the round.
  void Add(Flow& flow) {
    if (flow.place != Flow::Place::kAway) return;
    // What it did not send in a former round is lost; its debt is not.
    if (flow.round != round_ && flow.round != round_ + 1) {
      flow.deficit_bytes = std::min<int64_t>(flow.deficit_bytes, 0) + quantum_bytes_;
      flow.round = round_;
    }
    if (flow.round == round_ && flow.deficit_bytes > 0) {
      flow.place = Flow::Place::kFresh;
      fresh_.Append(flow);
    } else {
      if (flow.round == round_) Renew(flow);
      AppendServed(flow);
    }
  }

  void Remove(Flow& flow) {
    if (flow.place == Flow::Place::kFresh) {
      fresh_.Unlink(flow);
    } else if (flow.place == Flow::Place::kServed) {
      if (&flow == last_) EndRoundBefore(flow);
      served_.Unlink(flow);
    }
    flow.place = Flow::Place::kAway;
  }

  /// The flow whose turn it is; null when empty.
  Flow* Current() {
    while (fresh_.head != nullptr) {
      Flow& flow = *fresh_.head;
      if (flow.deficit_bytes > 0) return &flow;
      fresh_.Unlink(flow);
      Renew(flow);
      AppendServed(flow);
    }
    while (served_.head != nullptr && served_.head->deficit_bytes <= 0) {
      Flow& flow = *served_.head;
      Renew(flow);
      served_.head = flow.next;
      if (&flow != last_) continue;
      ++round_;
      last_ = served_.head->previous;
    }
    return served_.head;
  }

  /// Counts `bytes` as sent by `flow`, queued or not. The debt is bounded, so that Current ends.
  static void Charge(Flow& flow, uint32_t bytes) {
    flow.deficit_bytes = std::max(flow.deficit_bytes - bytes, -kMaxDebtBytes);
  }

 private:
  /// A circular list.
  struct List {
    void Append(Flow& flow) {
      if (head == nullptr) {
        head = flow.next = flow.previous = &flow;
        return;
      }
      flow.next = head;
      flow.previous = head->previous;
      flow.previous->next = &flow;
      head->previous = &flow;
    }
    void Unlink(Flow& flow) {
      if (flow.next == &flow) {
        head = nullptr;
      } else {
        flow.next->previous = flow.previous;
        flow.previous->next = flow.next;
        if (head == &flow) head = flow.next;
      }
      flow.next = flow.previous = nullptr;
    }

    Flow* head = nullptr;
  };

  static constexpr int64_t kMaxDebtBytes = 64 * 1024;

  /// The quantum of the next round.
  void Renew(Flow& flow) {
    flow.deficit_bytes += quantum_bytes_;
    flow.round = round_ + 1;
  }

  void AppendServed(Flow& flow) {
    flow.place = Flow::Place::kServed;
    served_.Append(flow);
    if (last_ == nullptr) last_ = &flow;
  }

  /// `flow` is the last one of the round, and leaves.
  void EndRoundBefore(const Flow& flow) {
    if (&flow != served_.head) {
      last_ = flow.previous;
      return;
    }
    ++round_;
    last_ = flow.previous == &flow ? nullptr : flow.previous;
  }

  const int64_t quantum_bytes_;
  uint32_t round_ = 1;
  List fresh_;
  List served_;
  Flow* last_ = nullptr;  ///< The last one of served_ that belongs to the round.
};

}  // namespace uroce::datapath
