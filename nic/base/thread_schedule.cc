// SPDX-License-Identifier: Apache-2.0
#include "nic/base/thread_schedule.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

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

}  // namespace uroce::nic
