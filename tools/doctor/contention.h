// SPDX-License-Identifier: Apache-2.0
// Checks whether the daemon's workers get the CPUs that they could use.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/finding.h"

namespace uroce::tools {

/// A worker's thread, since it began.
struct WorkerShare {
  uint32_t worker = 0;
  uint64_t cpu_ms = 0;       ///< On a CPU.
  uint64_t cpu_wait_ms = 0;  ///< Ready to run, but without a CPU.
  uint64_t involuntary_switches = 0;
};

struct ContentionFacts {
  pid_t daemon = 0;
  uint32_t processors = 0;
  std::vector<WorkerShare> workers;  ///< None: nobody answers, or the daemon does not tell.
};

/// Asks the daemon, whose process is `daemon`.
ContentionFacts ReadContention(const std::string& socket_path, pid_t daemon);
/// Fills `facts` from a dump of counters.
void ParseWorkers(const std::string& json, ContentionFacts& facts);
Findings CheckContention(const ContentionFacts& facts);

}  // namespace uroce::tools
