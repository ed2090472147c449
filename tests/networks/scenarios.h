// SPDX-License-Identifier: Apache-2.0
// Networks and loads that congestion control is judged by, and what it makes of them.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/networks/network_bed.h"

namespace uroce::networks {

/// Of each flow without end: messages under way, and their size.
inline constexpr uint32_t kDepth = 64;
inline constexpr uint32_t kMessageBytes = 16 * 1024;
inline constexpr uint64_t kGigabit = 1'000'000'000;

enum class Kind : uint8_t {
  kMarked,    ///< 25 Gb/s, 10 us there and back, 1 MB of buffer; RED marks: 100 to 400 KB, 20 %.
  kUnmarked,  ///< The same without marks: a full buffer drops.
  kLossless,  ///< The same with PFC in place of marks.
  kSlow,      ///< 1 Gb/s, 20 ms there and back, 4 MB of buffer, no marks.
};
std::string_view NameOf(Kind kind);

/// A switch of this kind with `nics` NICs.
NetworkConfig Star(Kind kind, uint32_t nics, const congestion::Settings& settings);

/// Jain's index of what the flows have completed since ResetCounts.
double FairnessOf(const std::vector<Flow*>& flows);

struct Shares {
  double jain = 0;        ///< Jain's index of the flows' completed bytes.
  double use = 0;         ///< Part of the bottleneck's line in use.
  double lost = 0;        ///< Part of the frames to the bottleneck that were dropped.
  uint64_t queue_99 = 0;  ///< Bytes: longer in 1 % of the time.
  uint64_t queue_peak = 0;
  uint64_t failed = 0;  ///< Messages with an error.
};

struct Incast {
  uint32_t senders = 2;
  bool reads = false;  ///< One NIC reads from `senders` others, in place of their writing to it.
  Nanos warm{20'000'000};
  Nanos measured{10'000'000};
};
/// `senders` NICs write to one without end.
Shares RunIncast(const NetworkConfig& config, const Incast& incast);

struct Latencies {
  double p50_us = 0, p99_us = 0;
  uint64_t messages = 0;
};
/// One NIC writes a message of `bytes` after the other to another, while `senders` NICs write to
/// that one without end.
Latencies RunBeside(const NetworkConfig& config, uint32_t senders, uint32_t bytes,
                    Nanos warm = Nanos(20'000'000), Nanos measured = Nanos(20'000'000));

/// Switches in a row: one flow passes all the links between them, and each link has one more flow,
/// which passes no other. The shares are those of all flows; the use is the least of a link.
Shares RunParkingLot(const NetworkConfig& star, uint32_t hops, Nanos warm = Nanos(20'000'000),
                     Nanos measured = Nanos(10'000'000));

/// Flows to one NIC come one after the other, and go in the same order. The shares of each stage in
/// its second half, those of the flows that are there.
std::vector<Shares> RunComingAndGoing(const NetworkConfig& config, uint32_t senders, Nanos stage);

struct Convergence {
  Nanos until{0};   ///< The end of the last 2 ms whose Jain's index was below 0.9.
  double jain = 0;  ///< Of the second half.
};
/// One flow writes for `before`; then a second one to the same NIC comes, and both go on for
/// `duration`.
Convergence RunConvergence(const NetworkConfig& config, Nanos before, Nanos duration);

}  // namespace uroce::networks
