// SPDX-License-Identifier: Apache-2.0
// A random list of works, and the effects that a sequential model foretells for each.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/transport/work.h"
#include "tests/sim/parties/remote_memory.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// One work of a send queue, its local bytes, and the outcome that the model foretells.
struct PlannedWork {
  transport::SendWork work;
  std::vector<uint8_t> local;     ///< Source; of READs and atomics the destination.
  std::vector<uint8_t> expected;  ///< READs and atomics: `local` after completion in order.
  std::vector<uint8_t> stored;    ///< Atomics: the value that they leave in memory.
  /// Of an illegal work: the status with which it fails. All works after it are flushed.
  transport::WcStatus failure = transport::WcStatus::kSuccess;
  bool gather_fails = false;   ///< Its bytes cannot be read.
  bool scatter_fails = false;  ///< Its bytes cannot be written.
};

/// What the peer's receive queue must get, in order.
struct PlannedReceive {
  uint32_t work = 0;          ///< The work that sends it.
  std::vector<uint8_t> data;  ///< Of SENDs.
  uint32_t length_bytes = 0;
  transport::WorkOpcode opcode = transport::WorkOpcode::kSend;
  bool solicited = false;
  uint32_t immediate_or_rkey = 0;
};

struct Workload {
  std::vector<PlannedWork> works;
  std::vector<PlannedReceive> receives;
  std::vector<uint8_t> memory;  ///< Of the target, at the end of the run.
  bool has_illegal = false;
};

struct WorkloadConfig {
  uint32_t works = 40;
  uint32_t most_bytes = 20'000;
  uint32_t path_mtu = 1024;
  bool illegal = false;  ///< One work is illegal.
};

/// WRITEs, atomics and READs use the same places repeatedly: the contents depend on the order of
/// all of them.
Workload MakeWorkload(const WorkloadConfig& config, const RemoteMemory& target, Random& random);

}  // namespace uroce::sim
