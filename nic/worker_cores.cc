// SPDX-License-Identifier: Apache-2.0
#include "nic/worker_cores.h"

#include <sched.h>

#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace uroce::nic {

std::vector<int> WorkerCores(uint32_t workers, const std::vector<int>& allowed) {
  if (workers == 1 || workers >= allowed.size()) return std::vector<int>(workers, -1);
  return {allowed.begin(), allowed.begin() + workers};
}

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// The directory of a CPU has a link to its NUMA node.
int NumaNodeOf(int core) {
  if (core < 0) return -1;
  std::error_code error;
  const std::filesystem::path directory(absl::StrCat("/sys/devices/system/cpu/cpu", core));
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    int node = -1;
    if (absl::ConsumePrefix(&number, "node") && absl::SimpleAtoi(number, &node)) return node;
  }
  return -1;
}

}  // namespace uroce::nic
