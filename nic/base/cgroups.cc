// SPDX-License-Identifier: Apache-2.0
#include "nic/base/cgroups.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace uroce::nic {
namespace {

using Visit = absl::FunctionRef<void(const std::string& directory, CgroupVersion)>;

/// The group `path` of a hierarchy and those above it.
void WalkUp(const std::string& hierarchy, std::string path, CgroupVersion version, Visit visit) {
  while (true) {
    visit(absl::StrCat(hierarchy, path), version);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

// A line is "number:controllers:path". Version 2 has number 0 and no names of controllers.
void ForEachCgroup(const std::string& groups, const std::string& mounts,
                   absl::string_view controller, Visit visit) {
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string path(absl::StripSuffix(fields[2], "/"));
    if (fields[1].empty()) {
      WalkUp(mounts, path, CgroupVersion::k2, visit);
      WalkUp(mounts + "/unified", path, CgroupVersion::k2, visit);
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::ranges::find(controllers, controller) == controllers.end()) continue;
    WalkUp(absl::StrCat(mounts, "/", controller), path, CgroupVersion::k1, visit);
  }
}

std::string OwnCgroups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace uroce::nic
