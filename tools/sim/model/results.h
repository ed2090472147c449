// SPDX-License-Identifier: Apache-2.0
// What a simulation came to: the numbers that tables, JSON and pages show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/base/types.h"
#include "tools/sim/model/cluster.h"
#include "tools/sim/model/traffic.h"

namespace uroce::tools::sim {

/// Of times, or of ratios. All 0 when there are none.
struct Quantiles {
  uint64_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, p999 = 0, most = 0;
};
/// The smallest value that the given part of all values do not exceed (nearest rank).
Quantiles QuantilesOf(std::vector<double> values);

/// Jain's index of fairness: 1 when all shares are equal, 1 / n when one has all.
double JainIndex(const std::vector<double>& shares);

/// Flows with an end whose size is in a range.
struct SizeClass {
  uint64_t most_bytes = 0;  ///< The class below ends where this one begins.
  Quantiles times_us;       ///< From start to end.
  Quantiles slowdowns;      ///< How much longer than on an idle network.
};

/// The flows of one workload of the scenario.
struct GroupResult {
  std::string name;
  uint64_t flows = 0, finished = 0, failed = 0, running = 0, waiting = 0;
  double goodput_bps = 0;              ///< New payload in the measured time, of all its flows.
  double jain = 1;                     ///< Of the flows' rates.
  double least_bps = 0, most_bps = 0;  ///< The rates of its slowest and fastest flow.
  Quantiles times_us;                  ///< Of flows with an end.
  Quantiles slowdowns;
  double last_end_us = 0;  ///< When its last flow ended.
};

struct Totals {
  double goodput_bps = 0;
  double jain = 1;
  uint64_t frames = 0;         ///< That NICs have sent.
  uint64_t packet_events = 0;  ///< Arrivals of frames at a switch or NIC.
  uint64_t retransmitted = 0, sequence_naks = 0, timeouts = 0, probes = 0;
  uint64_t duplicates = 0, out_of_sequence = 0, kept = 0;
  uint64_t marks = 0;          ///< By switches.
  uint64_t marked_frames = 0;  ///< Received with a mark; some were marked and then dropped.
  uint64_t cnps = 0;           ///< Received.
  uint64_t pauses = 0;         ///< Of all links.
  double paused_us = 0;        ///< The time in them, of all links together.
  uint64_t tail_drops = 0, early_drops = 0, down_drops = 0, losses = 0, scripted_drops = 0;
  uint64_t no_path = 0;
  uint64_t reordered = 0;
  uint64_t lost_slots = 0;  ///< The simulator had no room: not 0 is a fault of its settings.
  uint64_t peak_queue_bytes = 0;
  double mean_queue_bytes = 0;  ///< Of the link with the longest mean.
};

struct LinkResult {
  uint32_t link = 0;
  std::string name;
  double use = 0;  ///< Part of its bits in use, in the measured time.
  uint64_t frames = 0, marks = 0, drops = 0, pauses = 0;
  double paused_us = 0;
  uint64_t peak_queue_bytes = 0;
  double mean_queue_bytes = 0;          ///< Of the samples in the measured time.
  std::vector<uint32_t> queue_samples;  ///< Bytes; for the links with the longest queues.
};

/// A link that dropped or lost frames; of hosts too, whose queues are not among the links'.
struct LinkDrops {
  std::string name;
  uint64_t frames = 0;  ///< Sent, lost ones among them.
  uint64_t tail_drops = 0, early_drops = 0, down_drops = 0, losses = 0;

  uint64_t all() const { return tail_drops + early_drops + down_drops + losses; }
};

struct FlowSeries {
  uint32_t flow = 0;
  std::string name;
  std::vector<double> bps;  ///< In each interval.
};

struct Results {
  Nanos simulated{0};  ///< The end of the run.
  Nanos measured_from{0};
  bool is_deadlocked = false;  ///< Frames wait, and links that pause each other wait in a circle.
  Nanos last_progress{0};      ///< When new payload has arrived last.
  Totals totals;
  std::vector<GroupResult> groups;
  std::vector<SizeClass> sizes;
  Quantiles message_us;  ///< From post to completion, of messages of endless flows.
  Nanos sample_interval{0};
  std::vector<double> goodput_series_bps;
  std::vector<FlowSeries> flow_series;
  std::vector<LinkResult> links;  ///< Those with traffic, the longest mean queue first.
  std::vector<LinkDrops> drops;   ///< The most first.
  std::vector<double> times_us;   ///< Of all flows with an end, sorted: for distributions.
  std::vector<double> slowdowns;  ///< Sorted.
};

}  // namespace uroce::tools::sim
