// SPDX-License-Identifier: Apache-2.0
// A rate that several senders share without a lock: each of them takes tickets, in turn. Pure, but
// for one atomic word.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::datapath {

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

}  // namespace uroce::datapath
