// SPDX-License-Identifier: Apache-2.0
// What a worker's schedules are made of: the time of its turn, timers, turns that are fair in
// bytes, rates that several senders share, and the room for responses to READs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/os/clock.h"

namespace uroce::datapath {

/// The time of a worker's turn, for all its parts. Time stands still within a turn. One thread.
class TurnTime {
 public:
  void Begin(Nanos now) {
    ++number_;
    now_ = now;
    if (now - tended_ < Clock::kTendInterval) return;
    clock_.Tend();
    tended_ = now;
  }
  Nanos now() const { return now_; }
  /// The number of the turn; the first turn is 1.
  uint64_t number() const { return number_; }
  /// The time of the clock at the call, which is later than `now()`.
  Nanos ReadClock() const { return clock_.Now(); }
  /// The clock's ticks at the call, for spans: Clock::SpanOf.
  uint64_t ReadTicks() const { return clock_.Ticks(); }
  /// Says what time it is since 1970, at each call.
  Clock& clock() { return clock_; }
  const Clock& clock() const { return clock_; }

 private:
  Clock clock_;
  Nanos now_ = clock_.Now();
  Nanos tended_ = now_;
  uint64_t number_ = 0;
};

/// Link of one timer. Embedded in its owner, which outlives its time in the wheel.
struct TimerEntry {
  TimerEntry* next = nullptr;
  TimerEntry* previous = nullptr;
  Nanos deadline = kNever;  ///< kNever: not filed.
  uint16_t place = 0;       ///< Level and slot, for the wheel alone.

  bool filed() const { return deadline != kNever; }
};

/// Hierarchical timer wheel: slots of 8.2 us, each level 64 times coarser than the one below, so
/// that every deadline has a place. An entry never expires before its deadline, and at most one
/// slot after it when PopExpired is called in time.
/// One thread, and time is a parameter. Filing and removing cost the same however many entries
/// there are.
class TimerWheel {
 public:
  explicit TimerWheel(Nanos now);

  /// Files `entry`, or moves it when it is filed already. `deadline` is not kNever.
  void File(TimerEntry& entry, Nanos deadline);
  /// Takes `entry` out if it is filed.
  void Remove(TimerEntry& entry);
  /// One entry whose deadline has passed, no longer filed; null when there is none.
  TimerEntry* PopExpired(Nanos now) {
    const uint64_t now_tick = static_cast<uint64_t>(now.count()) >> kTickShift;
    if (due_ != nullptr || now_tick >= earliest_tick_) [[unlikely]]
      return PopDue(now_tick);
    if (now_tick > tick_) tick_ = now_tick;
    return nullptr;
  }
  /// A time not after the earliest deadline; kNever when nothing is filed.
  Nanos NextDeadline() const;

 private:
  static constexpr int kTickShift = 13;
  static constexpr int kLevelShift = 6;
  static constexpr int kSlots = 1 << kLevelShift;
  static constexpr int kLevels = 9;  // 54 bits of ticks cover 63 bits of nanoseconds.
  static constexpr uint16_t kDue = UINT16_MAX;

  struct Slot {
    int level;
    uint64_t start_tick;
  };

  void Insert(TimerEntry& entry);
  void Unlink(TimerEntry& entry);
  bool FindEarliest(Slot& slot) const;
  TimerEntry* PopDue(uint64_t now_tick);
  void Open(const Slot& slot);

  uint64_t tick_;                        // All slots before it are empty.
  uint64_t earliest_tick_ = UINT64_MAX;  // No slot starts before it; one may start later.
  TimerEntry* due_ = nullptr;
  std::array<uint64_t, kLevels> occupied_{};
  std::array<std::array<TimerEntry*, kSlots>, kLevels> heads_{};
};

// Deficit round robin: flows take turns, which are fair in bytes. Pure.

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
/// One that must not be interrupted (Keep) may overdraw by more.
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

  /// What a flow may have sent beyond its quantum at most: a superframe of the longest.
  static constexpr int64_t kMaxDebtBytes = 64 * 1024;

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
    if (&flow == kept_) kept_ = nullptr;
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
    if (kept_ != nullptr && (fresh_.head == nullptr || kept_->place == Flow::Place::kFresh)) {
      return kept_;
    }
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

  /// `flow`, the current one, goes on before others that are no fresher, though it may have sent
  /// its quantum. That lasts until Keep is called again, `flow` is removed, or it has overdrawn by
  /// kMaxDebtBytes. Null: no flow does.
  void Keep(Flow* flow) {
    kept_ = flow != nullptr && flow->deficit_bytes > -kMaxDebtBytes ? flow : nullptr;
  }
  /// Whether `flow`, which has something to send, is the only one.
  bool IsAlone(const Flow& flow) const {
    return flow.next == &flow && (fresh_.head == nullptr || served_.head == nullptr);
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
  Flow* kept_ = nullptr;
  Flow* last_ = nullptr;  ///< The last one of served_ that belongs to the round.
};

// A rate that several senders share without a lock: each of them takes tickets, in turn. Pure, but
// for one atomic word.

/// The rate of a NIC or of a user. A ticket is the right to send some bytes from some time on.
/// Tickets are given in the order in which they are asked for, one after the other in time. So all
/// senders together keep the rate, senders that always have something to send get equal shares, and
/// one that sends nothing takes nothing from the others.
///
/// Any thread. A ticket costs one compare-and-swap.
class SharedRate {
 public:
  /// What may leave at once after a pause. With a ticket it is a burst of 32 packets of 4 KB.
  static constexpr int64_t kCreditBytes = 112 * 1024;
  /// The longest pause that costs no rate: a worker that sleeps wakes late.
  static constexpr Nanos kMaxLate{2'000'000};
  /// The size of a ticket: what the rate gives in kTicketTime, but at least a packet of path MTU
  /// 4096, so that a slow sender waits once for each packet.
  static constexpr Nanos kTicketTime{50'000};
  static constexpr int64_t kLeastTicketBytes = 4'500;
  static constexpr int64_t kMostTicketBytes = 16 * 1024;

  /// 0: no limit.
  explicit SharedRate(uint64_t bps) { Set(bps); }
  SharedRate(const SharedRate&) = delete;
  SharedRate& operator=(const SharedRate&) = delete;

  /// While no sender is inside. Tickets that were given keep their times.
  void Set(uint64_t bps) {
    bps_ = bps;
    next_.store(0, std::memory_order_relaxed);
    if (bps == 0) return;
    nanos_per_byte_ = 8e9 / static_cast<double>(bps);
    ticket_bytes_ = std::clamp(
        std::llrint(static_cast<double>(kTicketTime.count()) / nanos_per_byte_),
        static_cast<long long>(kLeastTicketBytes), static_cast<long long>(kMostTicketBytes));
    credit_ = std::min(TimeOf(kCreditBytes), kMaxLate);
  }

  bool is_limited() const { return bps_ != 0; }
  uint64_t bps() const { return bps_; }
  int64_t ticket_bytes() const { return ticket_bytes_; }

  /// Takes the next ticket: the time from which its bytes may leave. Range: is_limited().
  Nanos TakeTicket(Nanos now) {
    const int64_t earliest = (now - credit_).count();
    const int64_t length = TimeOf(ticket_bytes_).count();
    int64_t next = next_.load(std::memory_order_relaxed);
    int64_t start = std::max(next, earliest);
    while (!next_.compare_exchange_weak(next, start + length, std::memory_order_relaxed)) {
      start = std::max(next, earliest);
    }
    return Nanos(start);
  }

 private:
  Nanos TimeOf(int64_t bytes) const {
    return Nanos(std::llrint(static_cast<double>(bytes) * nanos_per_byte_));
  }

  uint64_t bps_ = 0;
  double nanos_per_byte_ = 0;
  int64_t ticket_bytes_ = kLeastTicketBytes;
  Nanos credit_;
  alignas(64) std::atomic<int64_t> next_{0};  ///< When the next ticket begins.
};

/// One sender's tickets. One thread.
class RateShare {
 public:
  /// `rate` outlives this object; null: no limit.
  explicit RateShare(SharedRate* rate = nullptr) : rate_(rate) {}

  bool is_limited() const { return rate_ != nullptr && rate_->is_limited(); }
  /// Whether a packet may leave, of any size. Takes a ticket when the last one is used up, so a
  /// sender that has nothing to send does not ask. Range: is_limited().
  bool MaySend(Nanos now) {
    while (left_bytes_ <= 0) {
      if (from_ > now) return false;
      from_ = rate_->TakeTicket(now);
      left_bytes_ += rate_->ticket_bytes();
    }
    return from_ <= now;
  }
  /// The time from which MaySend is to be asked again, once it was false.
  Nanos next_send() const { return from_; }
  /// `bytes` on the wire have left. What exceeds the ticket is paid from the next ones. Packets
  /// that do not wait (acknowledgements) may exceed it by more, of which kMostDebtBytes are
  /// remembered.
  void OnSent(uint32_t bytes) {
    if (is_limited()) [[unlikely]]
      left_bytes_ = std::max(left_bytes_ - bytes, -kMostDebtBytes);
  }

 private:
  static constexpr int64_t kMostDebtBytes = 64 * 1024;

  SharedRate* rate_;
  Nanos from_{0};           ///< The time of the last ticket.
  int64_t left_bytes_ = 0;  ///< Of the last ticket. Below 0: sent ahead.
};

// Which READs may ask for data, where a port's receive buffer holds little and drops the rest.

/// What one queue pair has of a ReadBudget, and its place in the line. Owned by the queue pair.
struct ReadShare : Flow {
  uint64_t wanted_bytes = 0;   ///< Of the READ that waits in the line.
  uint64_t counted_bytes = 0;  ///< What the budget has counted for it, unless it is forgotten.
  uint64_t period = 0;         ///< When that was.
};

/// The queue pairs of one program that wait in the line. Owned by the program's flow of the port.
struct ReadLine : Flow {
  static constexpr int64_t kQuantumBytes = 64 * 1024;
  DeficitRoundRobin shares{kQuantumBytes};
};

/// Bounds the responses to READs that a worker's queue pairs have asked for on one port, by the
/// receive buffer of the port: a responder sends them as fast as it can. A READ leaves when there
/// is room, or when nothing else is asked for, since it may be larger than the buffer. Those that
/// find no room wait in a line, which is fair in bytes between programs, and then between the queue
/// pairs of one. A READ that has its turn waits until there is room for it, and so does the line.
///
/// The budget forgets responses that do not come: a peer that has gone delays no other peer. Bytes
/// are counted for one period at least, and for two at most. Pure, one thread.
class ReadBudget {
 public:
  /// Responses that were asked for this long ago are hardly on their way.
  static constexpr Nanos kPeriod{20'000'000};
  /// What a queue pair may ask for at once while no queue pair waits: many small READs leave in one
  /// turn.
  static constexpr uint64_t kSpareBytes = 32 * 1024;

  /// `room_bytes` is what responses may take, as transport::ReceiveBufferBytes counts; 0: no bound.
  explicit ReadBudget(uint64_t room_bytes) : room_bytes_(room_bytes) {}

  bool is_bounded() const { return room_bytes_ != 0; }
  uint64_t asked_bytes() const { return asked_bytes_[0] + asked_bytes_[1]; }
  bool has_line() const { return !lines_.empty(); }

  /// A READ that takes `bytes` waits for its turn.
  void Wait(ReadLine& line, ReadShare& share, uint64_t bytes) {
    share.wanted_bytes = bytes;
    line.shares.Add(share);
    lines_.Add(line);
  }
  /// `share` wants nothing any more.
  void Leave(ReadLine& line, ReadShare& share) {
    line.shares.Remove(share);
    if (line.shares.empty()) lines_.Remove(line);
  }
  static bool IsWaiting(const ReadShare& share) { return share.place != Flow::Place::kAway; }

  /// What was granted to `share`, and is answered or not used, is free again: `bytes` are left.
  void Shrink(ReadShare& share, uint64_t bytes, Nanos now) {
    Advance(now);
    uint64_t& counted = CountedOf(share);
    if (bytes >= counted) return;
    asked_bytes_[share.period % 2] -= counted - bytes;
    counted = bytes;
  }

  /// Takes the share whose turn it is from the line, if there is room for its READ; else null.
  /// `granted`: what it may ask for, its READ at least.
  ReadShare* Grant(Nanos now, uint64_t& granted) {
    auto* const line = static_cast<ReadLine*>(lines_.Current());
    if (line == nullptr) return nullptr;
    Advance(now);
    auto& share = *static_cast<ReadShare*>(line->shares.Current());
    const uint64_t asked = asked_bytes();
    const uint64_t free = room_bytes_ - std::min(room_bytes_, asked);
    if (asked != 0 && share.wanted_bytes > free) return nullptr;
    Leave(*line, share);
    granted = share.wanted_bytes;
    if (!has_line()) granted = std::max(granted, std::min(free, kSpareBytes));
    const auto charged = static_cast<uint32_t>(std::min<uint64_t>(granted, UINT32_MAX));
    DeficitRoundRobin::Charge(share, charged);
    DeficitRoundRobin::Charge(*line, charged);
    CountFor(share, granted);
    return &share;
  }

  /// When Grant may find room though nothing was answered; kNever: no queue pair waits.
  Nanos NextDeadline() const {
    return has_line() ? kPeriod * static_cast<int64_t>(period_ + 1) : kNever;
  }

 private:
  void Advance(Nanos now) {
    const auto period = static_cast<uint64_t>(now.count() / kPeriod.count());
    if (period == period_) return;
    asked_bytes_[period % 2] = 0;
    if (period > period_ + 1) asked_bytes_[(period + 1) % 2] = 0;
    period_ = period;
  }
  uint64_t& CountedOf(ReadShare& share) const {
    if (share.period + 1 < period_) share.counted_bytes = 0;
    return share.counted_bytes;
  }
  /// Counts `bytes` more for `share`. What it has asked for before is as new again.
  void CountFor(ReadShare& share, uint64_t bytes) {
    const uint64_t counted = CountedOf(share);
    if (counted != 0) asked_bytes_[share.period % 2] -= counted;
    share.period = period_;
    share.counted_bytes = counted + bytes;
    asked_bytes_[period_ % 2] += share.counted_bytes;
  }

  const uint64_t room_bytes_;
  std::array<uint64_t, 2> asked_bytes_{};  ///< In this period and in the one before.
  uint64_t period_ = 0;
  DeficitRoundRobin lines_{ReadLine::kQuantumBytes};
};

}  // namespace uroce::datapath
