// SPDX-License-Identifier: Apache-2.0
// Amounts of one requester, in bounded memory: latencies of messages, and a timeline whose
// intervals become longer as the capture does.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace uroce::tools::analyze {

/// Counts latencies with an error of at most an eighth.
class LatencyHistogram {
 public:
  void Add(int64_t nanos) {
    const uint64_t value = nanos < 0 ? 0 : static_cast<uint64_t>(nanos);
    if (buckets_.empty()) buckets_.resize(kBuckets);
    ++buckets_[IndexOf(value)];
    ++count_;
    least_ = count_ == 1 || value < least_ ? value : least_;
    most_ = value > most_ ? value : most_;
  }
  uint64_t count() const { return count_; }
  uint64_t least() const { return least_; }
  uint64_t most() const { return most_; }
  /// `part` of all are at most so long; 0 without any.
  uint64_t Quantile(double part) const {
    const auto wanted = static_cast<uint64_t>(part * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > wanted) return std::min(most_, UpperEnd(i));
    }
    return most_;
  }
  /// Calls `take(upper end in ns, count)` for each bucket that is not empty.
  template <typename Take>
  void Each(Take take) const {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] != 0) take(UpperEnd(i), buckets_[i]);
    }
  }

 private:
  static constexpr size_t kParts = 8;  // Of each power of two.
  static constexpr size_t kBuckets = 40 * kParts;
  static size_t IndexOf(uint64_t value) {
    if (value < kParts) return value;
    const auto power = static_cast<size_t>(std::bit_width(value)) - 4;
    return std::min(kBuckets - 1, (power + 1) * kParts + (value >> power) - kParts);
  }
  static uint64_t UpperEnd(size_t index) {
    if (index < kParts) return index;
    const size_t power = index / kParts - 1;
    return ((index % kParts + kParts + 1) << power) - 1;
  }

  std::vector<uint32_t> buckets_;
  uint64_t count_ = 0;
  uint64_t least_ = 0;
  uint64_t most_ = 0;
};

/// Messages of one operation.
struct MessageAmount {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
  LatencyHistogram latency;  ///< From the first packet to the ACK or the last response.

  void Add(uint64_t message_bytes) {
    least_bytes = messages == 0 || message_bytes < least_bytes ? message_bytes : least_bytes;
    most_bytes = message_bytes > most_bytes ? message_bytes : most_bytes;
    ++messages;
    bytes += message_bytes;
  }
};

/// What happened in one interval.
struct Interval {
  uint64_t request_bytes = 0;   ///< Payload that was sent for the first time.
  uint64_t response_bytes = 0;  ///< Payload of READ responses.
  uint64_t resent_bytes = 0;
  uint32_t most_in_flight = 0;  ///< Packets.
  uint32_t cnps = 0;
  uint32_t marked = 0;

  void Join(const Interval& other) {
    request_bytes += other.request_bytes;
    response_bytes += other.response_bytes;
    resent_bytes += other.resent_bytes;
    most_in_flight = std::max(most_in_flight, other.most_in_flight);
    cnps += other.cnps;
    marked += other.marked;
  }
};

/// At most kMost intervals of equal length from the first packet on, kFew while there are few
/// events: captures have many connections that do little. When the last one is full, two become
/// one.
class Timeline {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kFew = 32;
  static constexpr uint32_t kFewEvents = 1024;
  static constexpr int kFirstShift = 13;  // 8 us.

  Interval& At(int64_t time_ns) {
    if (intervals_.empty()) start_ns_ = time_ns;
    const int64_t passed = time_ns < start_ns_ ? 0 : time_ns - start_ns_;
    events_ += events_ < kFewEvents;
    const size_t most = events_ < kFewEvents ? kFew : kMost;
    while (passed >> shift_ >= static_cast<int64_t>(most)) Halve();
    const auto index = static_cast<size_t>(passed >> shift_);
    if (index >= intervals_.size()) intervals_.resize(index + 1);
    return intervals_[index];
  }
  const std::vector<Interval>& intervals() const { return intervals_; }
  int64_t interval_ns() const { return int64_t{1} << shift_; }
  int64_t start_ns() const { return start_ns_; }

 private:
  void Halve() {
    for (size_t i = 0; i < intervals_.size(); i += 2) {
      Interval joined = intervals_[i];
      if (i + 1 < intervals_.size()) joined.Join(intervals_[i + 1]);
      intervals_[i / 2] = joined;
    }
    intervals_.resize((intervals_.size() + 1) / 2);
    ++shift_;
  }

  std::vector<Interval> intervals_;
  int shift_ = kFirstShift;
  uint32_t events_ = 0;  // Up to kFewEvents.
  int64_t start_ns_ = 0;
};

/// A point of the graph of PSNs over time.
enum class PlotKind : uint8_t {
  kSent,
  kResent,
  kAcknowledged,
  kResponse,
  kNak,
  kRnrNak,
  kCnp,
  kMissing,
};
inline constexpr size_t kPlotKindCount = 8;

struct PlotPoint {
  int64_t time_ns = 0;
  uint64_t frame = 0;
  uint32_t offset = 0;  ///< PSNs since the first one.
  PlotKind kind = PlotKind::kSent;
};

/// Keeps at most so many points of each kind: every one, then every second, every fourth ...
class Plot {
 public:
  explicit Plot(size_t most = 0) : most_(most) {}

  void Add(const PlotPoint& point) {
    if (most_ == 0) return;
    Kept& kept = kept_[static_cast<size_t>(point.kind)];
    if (kept.count++ % kept.stride != 0) return;
    kept.points.push_back(point);
    if (kept.points.size() < most_) return;
    for (size_t i = 0; i < kept.points.size() / 2; ++i) kept.points[i] = kept.points[2 * i];
    kept.points.resize(kept.points.size() / 2);
    kept.stride *= 2;
  }
  const std::vector<PlotPoint>& points(PlotKind kind) const {
    return kept_[static_cast<size_t>(kind)].points;
  }
  uint64_t stride(PlotKind kind) const { return kept_[static_cast<size_t>(kind)].stride; }
  bool is_on() const { return most_ != 0; }

 private:
  struct Kept {
    std::vector<PlotPoint> points;
    uint64_t count = 0;
    uint64_t stride = 1;
  };
  size_t most_;
  std::array<Kept, kPlotKindCount> kept_;
};

}  // namespace uroce::tools::analyze
