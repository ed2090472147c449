// SPDX-License-Identifier: Apache-2.0
#include "nic/base/cpu_limit.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"
#include "nic/base/cgroups.h"
#include "nic/base/cpus.h"
#include "pipeline/base/types.h"

namespace uroce::nic {
namespace {

static_assert(kMostAutoWorkers <= kMaxWorkers);

constexpr uint64_t kNoQuota = UINT64_MAX;
constexpr uint32_t kCpusOfAWorker = 4;
constexpr uint64_t kMemoryOfAWorker = 512 << 20;

/// `quota_us` of CPU time in each `period_us`, in whole CPUs. "max" and -1 are no numbers of this
/// kind: no quota.
uint64_t WholeCpus(const std::string& quota_us, const std::string& period_us) {
  uint64_t quota = 0;
  uint64_t period = 0;
  const bool has_quota =
      absl::SimpleAtoi(quota_us, &quota) && absl::SimpleAtoi(period_us, &period) && period != 0;
  return has_quota ? quota / period : kNoQuota;
}

/// Of one cgroup; kNoQuota also where there is no such directory.
uint64_t QuotaOf(const std::string& directory, CgroupVersion version) {
  std::string quota_us;
  std::string period_us;
  if (version == CgroupVersion::k2) {
    std::ifstream(directory + "/cpu.max") >> quota_us >> period_us;
  } else {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota_us;
    std::ifstream(directory + "/cpu.cfs_period_us") >> period_us;
  }
  return WholeCpus(quota_us, period_us);
}

}  // namespace

uint32_t UsableCpus(uint32_t allowed, const std::string& groups, const std::string& mounts) {
  uint64_t least = allowed;
  ForEachCgroup(groups, mounts, "cpu",
                [&least](const std::string& directory, CgroupVersion version) {
                  least = std::min(least, QuotaOf(directory, version));
                });
  return std::max(1u, static_cast<uint32_t>(least));
}

uint32_t UsableCpus() {
  return UsableCpus(static_cast<uint32_t>(AllowedCores().size()), OwnCgroups(), kCgroupMounts);
}

uint32_t AutoWorkers(uint32_t usable_cpus, uint64_t memory_bytes) {
  const uint64_t workers =
      std::min<uint64_t>(usable_cpus / kCpusOfAWorker, memory_bytes / kMemoryOfAWorker);
  return static_cast<uint32_t>(std::clamp<uint64_t>(workers, 1, kMostAutoWorkers));
}

}  // namespace uroce::nic
