// SPDX-License-Identifier: Apache-2.0
// A random list of works with what each must have done when all is over, in a sequential model.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/transport/work.h"
#include "tests/sim/random.h"
#include "tests/sim/remote_memory.h"

namespace uroce::sim {

/// One work of a send queue, its local bytes, and the outcome that the model foretells.
struct PlannedWork {
  transport::SendWork work;
  std::vector<uint8_t> local;     ///< Source; of READs and atomics the destination.
  std::vector<uint8_t> expected;  ///< READs and atomics: `local` once complete.
  /// Of an illegal work: with which status it fails. All works behind it flush.
  transport::WcStatus failure = transport::WcStatus::kSuccess;
  bool gather_fails = false;   ///< Its bytes cannot be read.
  bool scatter_fails = false;  ///< Its bytes cannot be written.
};

/// What the peer's receive queue must see, in order.
struct PlannedReceive {
  std::vector<uint8_t> data;  ///< SENDs.
  uint32_t length_bytes = 0;
  transport::WorkOpcode opcode = transport::WorkOpcode::kSend;
  bool solicited = false;
  uint32_t immediate_or_rkey = 0;
};

struct Workload {
  std::vector<PlannedWork> works;
  std::vector<PlannedReceive> receives;
  uint64_t counters[RemoteMemory::kCounters] = {};  ///< Of the target, at the end.
  std::vector<uint8_t> memory;                      ///< The rest of the target, at the end.
  /// With an illegal work: the same with the WRITEs behind it, which flush. Selective repeat may
  /// have placed some of their bytes.
  std::vector<uint8_t> memory_with_flushed;
  bool has_illegal = false;
};

struct WorkloadConfig {
  uint32_t works = 40;
  uint32_t most_bytes = 20'000;
  uint32_t path_mtu = 1024;
  bool illegal = false;  ///< One work is.
};

/// WRITEs take fresh bytes of `target`, so their order among each other and against READs of what
/// was written before is all that contents depend on.
Workload MakeWorkload(const WorkloadConfig& config, const RemoteMemory& target, Random& random);

}  // namespace uroce::sim
