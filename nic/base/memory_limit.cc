// SPDX-License-Identifier: Apache-2.0
#include "nic/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace uroce::nic {
namespace {

/// The number in a file of limits; UINT64_MAX for "max", and where there is no such file.
uint64_t LimitIn(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  uint64_t bytes = 0;
  return absl::SimpleAtoi(text, &bytes) ? bytes : UINT64_MAX;
}

/// The smallest limit of the group `path` of a hierarchy and of those above it.
uint64_t LimitOnTheWay(const std::string& hierarchy, std::string path, const char* file) {
  uint64_t least = UINT64_MAX;
  while (true) {
    least = std::min(least, LimitIn(absl::StrCat(hierarchy, path, "/", file)));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

}  // namespace

// A line is "number:controllers:path". Version 2 has number 0 and no names of controllers.
uint64_t CgroupMemoryLimit(const std::string& groups, const std::string& mounts) {
  uint64_t least = UINT64_MAX;
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string path(absl::StripSuffix(fields[2], "/"));
    if (fields[1].empty()) {
      least = std::min({least, LimitOnTheWay(mounts, path, "memory.max"),
                        LimitOnTheWay(mounts + "/unified", path, "memory.max")});
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::ranges::find(controllers, "memory") == controllers.end()) continue;
    least = std::min(least, LimitOnTheWay(mounts + "/memory", path, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t MemoryLimit() {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const uint64_t machine = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  return std::min(machine, CgroupMemoryLimit(groups, "/sys/fs/cgroup"));
}

}  // namespace uroce::nic
