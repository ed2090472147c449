// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/roce_port.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
namespace {

constexpr char kPortSuffix[] = ":12B7";  // 4791 as it appears in /proc/net/udp.
constexpr size_t kLocalAddress = 1;      // Indices of words in a line of it.
constexpr size_t kInode = 9;

/// Inodes of the sockets that are bound to the port.
std::set<std::string> SocketsOfPort(const Machine& machine) {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
    const std::string text = machine.Read(table).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
      if (words.size() <= kInode || !absl::EndsWith(words[kLocalAddress], kPortSuffix)) continue;
      inodes.insert(words[kInode]);
    }
  }
  return inodes;
}

Finding CheckHolder(const SocketHolder& holder, const RocePortFacts& facts, Level level) {
  if (holder.name == "uroced") {
    return {Level::kOk, "udp 4791", absl::StrCat("held by uroced (pid ", holder.pid, ")"), ""};
  }
  if (holder.pid != 0) {
    return {level, "udp 4791",
            absl::StrCat("held by ", holder.name, " (pid ", holder.pid,
                         "), which sees RoCE packets of this namespace too"),
            absl::StrCat("sudo kill ", holder.pid)};
  }
  if (!facts.rxe_loaded && !facts.all_processes_seen) {
    return {Level::kOk, "udp 4791", "held by another user's process; root sees whose", ""};
  }
  const std::string device = facts.rdma_devices.empty() ? "rxe0" : facts.rdma_devices.front();
  return {level, "udp 4791",
          "held by the kernel (rdma_rxe): it answers the packets of a port on the same interface",
          "sudo rdma link delete " + device};
}

}  // namespace

RocePortFacts ReadRocePort(const Machine& machine) {
  RocePortFacts facts;
  for (const auto& [inode, holder] : FindHolders(machine, SocketsOfPort(machine))) {
    if (std::ranges::find(facts.holders, holder) == facts.holders.end()) {
      facts.holders.push_back(holder);
    }
  }
  facts.all_processes_seen = !machine.List("/proc/1/fd").empty();
  facts.rxe_loaded = machine.Exists("/sys/module/rdma_rxe");
  facts.rdma_devices = machine.List("/sys/class/infiniband");
  return facts;
}

Findings CheckRocePort(const RocePortFacts& facts, bool beside_kernel) {
  if (facts.holders.empty()) return {{Level::kOk, "udp 4791", "free", ""}};
  Findings findings;
  for (const SocketHolder& holder : facts.holders) {
    findings.push_back(CheckHolder(holder, facts, beside_kernel ? Level::kProblem : Level::kNote));
  }
  return findings;
}

}  // namespace uroce::tools
