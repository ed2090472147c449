// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/limits.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
namespace {

constexpr uint64_t kUnlimited = ~uint64_t{0};
constexpr uint64_t kUdpBytes = 4ull << 20;   // For what arrives while a worker does not run.
constexpr uint64_t kVfioBytes = 1ull << 30;  // What a daemon's pools may need.

/// Whether `used` is at least four fifths of `limit`.
bool IsMuch(uint64_t used, uint64_t limit) { return used >= limit - limit / 5; }

/// The soft limit of a line of /proc/PID/limits: name, soft, hard, unit.
std::optional<uint64_t> SoftLimit(const std::string& limits, const std::string& name) {
  const std::optional<std::string> line = FieldOf(limits, name);
  if (!line) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(*line, ' ', absl::SkipWhitespace());
  uint64_t value = 0;
  if (!words.empty() && words[0] == "unlimited") return kUnlimited;
  if (words.empty() || !absl::SimpleAtoi(words[0], &value)) return std::nullopt;
  return value;
}

ProcessFacts ReadProcess(const Machine& machine, pid_t pid) {
  const std::string place = absl::StrCat("/proc/", pid);
  ProcessFacts process{.pid = pid};
  process.name =
      std::string(absl::StripAsciiWhitespace(machine.Read(place + "/comm").value_or("?")));
  process.maps = machine.CountLines(place + "/maps");
  const std::vector<std::string> files = machine.List(place + "/fd");
  if (!files.empty()) process.open_files = files.size();
  process.max_files = SoftLimit(machine.Read(place + "/limits").value_or(""), "Max open files");
  return process;
}

std::string Name(const ProcessFacts& process) {
  return absl::StrCat(process.name, " (pid ", process.pid, ")");
}

void CheckProcess(const ProcessFacts& process, uint64_t max_map_count, Findings& findings) {
  if (process.maps && IsMuch(*process.maps, max_map_count)) {
    findings.push_back({Level::kProblem, "limits",
                        absl::StrCat(Name(process), " has ", *process.maps, " of ", max_map_count,
                                     " mappings (vm.max_map_count); memory that is registered "
                                     "beyond them is copied on every access"),
                        "sudo sysctl -w vm.max_map_count=1048576"});
  }
  if (process.open_files && process.max_files && IsMuch(*process.open_files, *process.max_files)) {
    findings.push_back({Level::kProblem, "limits",
                        absl::StrCat(Name(process), " has ", *process.open_files, " of ",
                                     *process.max_files, " files open (nofile)"),
                        absl::StrCat("sudo prlimit --pid ", process.pid, " --nofile=1048576")});
  }
}

}  // namespace

LimitFacts ReadLimits(const Machine& machine, const std::vector<pid_t>& pids) {
  LimitFacts facts;
  facts.max_map_count = machine.ReadNumber("/proc/sys/vm/max_map_count");
  facts.rmem_max_bytes = machine.ReadNumber("/proc/sys/net/core/rmem_max");
  facts.memlock_bytes =
      SoftLimit(machine.Read("/proc/self/limits").value_or(""), "Max locked memory");
  for (const std::string& entry : machine.List("/sys/bus/pci/drivers/vfio-pci")) {
    // Bound devices stand beside the driver's other files, under their addresses: 0000:3b:00.0.
    if (entry.find(':') != std::string::npos) facts.vfio_in_use = true;
  }
  for (const pid_t pid : pids) facts.processes.push_back(ReadProcess(machine, pid));
  return facts;
}

Findings CheckLimits(const LimitFacts& facts) {
  Findings findings;
  const uint64_t max_map_count = facts.max_map_count.value_or(kUnlimited);
  for (const ProcessFacts& process : facts.processes) {
    CheckProcess(process, max_map_count, findings);
  }
  if (facts.vfio_in_use && facts.memlock_bytes.value_or(kUnlimited) < kVfioBytes) {
    findings.push_back({Level::kProblem, "limits",
                        absl::StrCat("memlock is ", *facts.memlock_bytes / 1024,
                                     " KiB: a NIC bound to vfio-pci has its memory locked"),
                        "ulimit -l unlimited"});
  }
  if (facts.rmem_max_bytes.value_or(kUnlimited) < kUdpBytes) {
    findings.push_back({Level::kNote, "limits",
                        absl::StrCat("net.core.rmem_max is ", *facts.rmem_max_bytes / 1024,
                                     " KiB: a port by UDP sockets (udp=) loses packets beyond it"),
                        "sudo sysctl -w net.core.rmem_max=33554432"});
  }
  if (!findings.empty()) return findings;
  return {{Level::kOk, "limits",
           facts.max_map_count ? absl::StrCat("max_map_count ", *facts.max_map_count,
                                              ", open files: far from their ends")
                               : "far from their ends",
           ""}};
}

}  // namespace uroce::tools
