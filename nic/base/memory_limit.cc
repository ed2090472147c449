// SPDX-License-Identifier: Apache-2.0
#include "nic/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "nic/base/cgroups.h"

namespace uroce::nic {
namespace {

/// The number in a file of limits; UINT64_MAX for "max", and where there is no such file.
uint64_t LimitIn(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  uint64_t bytes = 0;
  return absl::SimpleAtoi(text, &bytes) ? bytes : UINT64_MAX;
}

}  // namespace

uint64_t CgroupMemoryLimit(const std::string& groups, const std::string& mounts) {
  uint64_t least = UINT64_MAX;
  ForEachCgroup(groups, mounts, "memory",
                [&least](const std::string& directory, CgroupVersion version) {
                  const bool is_first = version == CgroupVersion::k1;
                  const char* const file = is_first ? "/memory.limit_in_bytes" : "/memory.max";
                  least = std::min(least, LimitIn(directory + file));
                });
  return least;
}

uint64_t MemoryLimit() {
  const uint64_t machine = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  return std::min(machine, CgroupMemoryLimit(OwnCgroups(), kCgroupMounts));
}

}  // namespace uroce::nic
