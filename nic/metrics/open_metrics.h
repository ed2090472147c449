// SPDX-License-Identifier: Apache-2.0
// What the daemon counts, at one moment, for those that ask often; and its text in the format of
// OpenMetrics 1.0. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/base/observation.h"

namespace uroce::nic {

struct NamedCount {
  const char* name;  ///< Of a table in the sources.
  uint64_t value;
};

struct DeviceSnapshot {
  std::string name;
  std::vector<NamedCount> counters;
  HistogramSums completion_ns;
  HistogramSums round_trip_ns;
  HistogramSums sent_bytes;
  HistogramSums received_bytes;
  std::vector<NamedCount> fault_receive;  ///< Empty, as the next, where there never were faults.
  std::vector<NamedCount> fault_transmit;
};

struct WorkerSnapshot {
  uint32_t index = 0;
  uint64_t queue_pairs = 0;
  uint64_t received_packets = 0;  ///< This and the next four are sums over all devices.
  uint64_t received_bytes = 0;
  uint64_t sent_packets = 0;
  uint64_t sent_bytes = 0;
  uint64_t cross_worker_full = 0;
  uint64_t handed_over = 0;
  uint64_t taken_over = 0;
  uint64_t turns = 0;
  uint64_t busy_ms = 0;
  uint64_t cpu_ms = 0;       ///< On a CPU.
  uint64_t cpu_wait_ms = 0;  ///< Ready to run, but without a CPU.
  uint64_t involuntary_switches = 0;
  uint64_t longest_turn_us = 0;
  HistogramSums turn_ns;
};

/// Of the control thread.
struct ControlSnapshot {
  uint64_t turns = 0;
  uint64_t longest_turn_us = 0;
  HistogramSums turn_ns;
};

struct ProgramSnapshot {
  std::string name;
  int32_t pid = 0;
  uint32_t session = 0;
  uint64_t queue_pairs = 0;
  uint64_t sent_bytes = 0;  ///< This and the next are of queue pairs that exist.
  uint64_t received_bytes = 0;
};

struct Snapshot {
  std::vector<DeviceSnapshot> devices;
  std::vector<WorkerSnapshot> workers;
  ControlSnapshot control;
  std::vector<NamedCount> held;  ///< What all programs hold: frames, queue pairs, keys.
  std::vector<ProgramSnapshot> programs;
};

inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The programs with the most queue pairs have a line each, up to this number; the others share
/// the line of program="other".
inline constexpr size_t kMaxProgramLabels = 64;

/// Who reads the text: root and the daemon's own user, or any user. Any user sees what dumps show
/// to any user: how many programs there are, and none of them.
enum class Audience : uint8_t { kPrivileged, kAnyUser };

/// Every counter of a device becomes a family uroce_<name>, with a text from the table in the
/// source, or its name when the table does not have it.
std::string OpenMetrics(const Snapshot& snapshot, Audience audience);

}  // namespace uroce::nic
