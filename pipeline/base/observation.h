// SPDX-License-Identifier: Apache-2.0
// What others see of a thread: counters and histograms that it alone writes, and probes for
// tracers.
#pragma once

#include <sys/sdt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace uroce {

/// Adds to a counter that only this thread writes: no locked instruction.
inline void Count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

/// Raises a number that only this thread writes to `value`, if that is more.
inline void KeepMost(std::atomic<uint64_t>& most, uint64_t value) {
  if (value > most.load(std::memory_order_relaxed)) [[unlikely]]
    most.store(value, std::memory_order_relaxed);
}

/// Counts values by size. Bounds rise by a power of two, so that a bucket is found without a
/// search. The bounds of a histogram: 2^first_log2, and each of the next 2^step_log2 times the one
/// before.
struct HistogramShape {
  static constexpr uint32_t kBounds = 15;
  static constexpr uint32_t kBuckets = kBounds + 1;  ///< The last one has no bound.
  uint32_t first_log2 = 0;
  uint32_t step_log2 = 1;

  /// The largest value of a bucket. Range: bucket < kBounds.
  constexpr uint64_t BoundOf(uint32_t bucket) const {
    return uint64_t{1} << (first_log2 + step_log2 * bucket);
  }
  constexpr uint32_t BucketOf(uint64_t value) const {
    const auto width = static_cast<uint32_t>(std::bit_width((value - (value != 0)) >> first_log2));
    return std::min((width + step_log2 - 1) / step_log2, kBounds);
  }
};

/// The sum of histograms of one shape.
struct HistogramSums {
  std::array<uint64_t, HistogramShape::kBuckets> counts{};
  uint64_t sum = 0;  ///< Of all values. Wraps.
};

/// One thread adds, with plain stores; others read at any time, and may see a value counted that is
/// not yet part of the sum.
template <HistogramShape kOfShape>
class Histogram {
 public:
  static constexpr HistogramShape kShape = kOfShape;

  void Add(uint64_t value) {
    Count(counts_[kShape.BucketOf(value)], 1);
    Count(sum_, value);
  }
  void AddTo(HistogramSums& sums) const {
    for (uint32_t i = 0; i < HistogramShape::kBuckets; ++i) {
      sums.counts[i] += counts_[i].load(std::memory_order_relaxed);
    }
    sums.sum += sum_.load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, HistogramShape::kBuckets> counts_{};
  std::atomic<uint64_t> sum_{0};
};

/// From 1 us to 17 ms, in ns.
using LatencyHistogram = Histogram<HistogramShape{.first_log2 = 10, .step_log2 = 1}>;
/// From 0.5 us to 8 ms, in ns.
using TurnHistogram = Histogram<HistogramShape{.first_log2 = 9, .step_log2 = 1}>;
/// From 16 bytes to 4 GiB.
using SizeHistogram = Histogram<HistogramShape{.first_log2 = 4, .step_log2 = 2}>;

}  // namespace uroce

namespace uroce::probes {

// Places at which a tracer (bpftrace, perf, gdb) sees what the daemon does: USDT probes of the
// provider "uroce". A probe without a tracer is a nop: it has no semaphore and no branch, so
// callers pass what they have at hand. docs/guide/tracing.md lists the probes for those who trace;
// tests/e2e/tools/tracing_test.py compares the two.

// NOLINTBEGIN(hicpp-no-assembler): the macros of <sys/sdt.h> are assembler.

/// A worker has taken a send work from its queue.
[[gnu::always_inline]] inline void Post(uint32_t qpn, uint64_t wr_id, uint32_t opcode,
                                        uint32_t length_bytes) {
  DTRACE_PROBE4(uroce, post, qpn, wr_id, opcode, length_bytes);
}

/// A packet of a queue pair is complete and goes to its port.
[[gnu::always_inline]] inline void Send(uint32_t qpn, uint32_t psn, uint32_t opcode,
                                        uint32_t frame_bytes) {
  DTRACE_PROBE4(uroce, send, qpn, psn, opcode, frame_bytes);
}

/// The packet of the Send before is sent again. `cause` is UROCE_RESEND_*.
[[gnu::always_inline]] inline void Retransmit(uint32_t qpn, uint32_t psn, uint32_t cause,
                                              uint32_t number) {
  DTRACE_PROBE4(uroce, retransmit, qpn, psn, cause, number);
}

/// A packet has passed all checks and is shown to the transport of its queue pair.
[[gnu::always_inline]] inline void Receive(uint32_t qpn, uint32_t psn, uint32_t opcode,
                                           uint32_t payload_bytes) {
  DTRACE_PROBE4(uroce, receive, qpn, psn, opcode, payload_bytes);
}

/// A received packet is not used. `reason` is UROCE_REASON_*.
[[gnu::always_inline]] inline void Drop(uint32_t qpn, uint32_t psn, uint32_t reason,
                                        uint32_t detail) {
  DTRACE_PROBE4(uroce, drop, qpn, psn, reason, detail);
}

/// An acknowledgement is sent, or has been received.
[[gnu::always_inline]] inline void Ack(uint32_t qpn, uint32_t psn, uint32_t msn, uint32_t is_sent) {
  DTRACE_PROBE4(uroce, ack, qpn, psn, msn, is_sent);
}

/// A NAK is sent, or has been received.
[[gnu::always_inline]] inline void Nak(uint32_t qpn, uint32_t psn, uint32_t syndrome,
                                       uint32_t is_sent) {
  DTRACE_PROBE4(uroce, nak, qpn, psn, syndrome, is_sent);
}

/// The acknowledgement timer of a queue pair has expired, `count` times by now.
[[gnu::always_inline]] inline void Timeout(uint32_t qpn, uint32_t next_psn, uint64_t count) {
  DTRACE_PROBE3(uroce, timeout, qpn, next_psn, count);
}

/// A completion has been written to its queue.
[[gnu::always_inline]] inline void Complete(uint32_t qpn, uint64_t wr_id, uint32_t status,
                                            uint32_t opcode, uint32_t length_bytes) {
  DTRACE_PROBE5(uroce, complete, qpn, wr_id, status, opcode, length_bytes);
}

/// A memory region can be used from now on. Control thread.
[[gnu::always_inline]] inline void Register(uint32_t key, uint64_t iova, uint64_t length_bytes,
                                            uint32_t access, uint32_t pd) {
  DTRACE_PROBE5(uroce, register, key, iova, length_bytes, access, pd);
}

// NOLINTEND(hicpp-no-assembler)

}  // namespace uroce::probes
