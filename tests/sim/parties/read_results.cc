// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/read_results.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace uroce::sim {
namespace {

using transport::WorkOpcode;

/// Works after such a one wait for all READs before it.
bool EndsReads(const PlannedWork& planned) {
  return planned.work.fence || planned.work.opcode == WorkOpcode::kLocalInvalidate ||
         planned.failure != transport::WcStatus::kSuccess;
}

/// The bytes that `planned` leaves in memory.
std::span<const uint8_t> StoredBy(const PlannedWork& planned) {
  switch (planned.work.opcode) {
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteWithImm:
    case WorkOpcode::kAtomicWrite:
      return planned.local;
    default:
      return planned.stored;
  }
}

/// Notes which bytes of a READ at `va` may be those of `planned`.
void Allow(const PlannedWork& planned, uint64_t va, std::span<const uint8_t> bytes,
           std::vector<bool>& allowed) {
  const std::span<const uint8_t> stored = StoredBy(planned);
  for (uint64_t i = 0; i < stored.size(); ++i) {
    const uint64_t at = planned.work.remote_va + i - va;
    if (at < bytes.size() && bytes[at] == stored[i]) allowed[at] = true;
  }
}

}  // namespace

bool MayRead(const Workload& plan, uint32_t index, std::span<const uint8_t> bytes) {
  const PlannedWork& read = plan.works[index];
  if (bytes.size() != read.expected.size()) return false;
  if (std::ranges::equal(bytes, read.expected)) return true;
  std::vector<bool> allowed(bytes.size());
  std::transform(bytes.begin(), bytes.end(), read.expected.begin(), allowed.begin(),
                 std::equal_to<>());
  for (uint32_t i = index + 1; i < plan.works.size() && !EndsReads(plan.works[i]); ++i) {
    Allow(plan.works[i], read.work.remote_va, bytes, allowed);
  }
  return std::ranges::all_of(allowed, [](bool one) { return one; });
}

}  // namespace uroce::sim
