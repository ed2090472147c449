// SPDX-License-Identifier: Apache-2.0
// CPUs and threads: the CPU on which each worker runs, and the CPU time that a thread got.
#include "nic/base/cpus.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace uroce::nic {

ThreadSchedule ReadThreadSchedule(pid_t thread) {
  ThreadSchedule schedule;
  const std::string place = absl::StrCat("/proc/self/task/", thread);
  std::ifstream times(place + "/schedstat");
  times >> schedule.running_ns >> schedule.waiting_ns;
  std::ifstream status(place + "/status");
  for (std::string word; status >> word;) {
    if (word == "nonvoluntary_ctxt_switches:") status >> schedule.involuntary_switches;
  }
  return schedule;
}

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
