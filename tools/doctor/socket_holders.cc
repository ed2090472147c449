// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/socket_holders.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

/// Moves the sockets that a process holds from `inodes` to `holders`.
void TakeSocketsOf(const Machine& machine, pid_t pid, std::set<std::string>& inodes,
                   std::map<std::string, SocketHolder>& holders) {
  const std::string place = absl::StrCat("/proc/", pid);
  std::string name;
  for (const std::string& fd : machine.List(place + "/fd")) {
    const auto target = machine.ReadLink(absl::StrCat(place, "/fd/", fd));
    if (!target || !absl::StartsWith(*target, "socket:[")) continue;
    const std::string inode = target->substr(8, target->size() - 9);
    if (inodes.erase(inode) == 0) continue;
    if (name.empty()) name = machine.Read(place + "/comm").value_or("?");
    holders[inode] = {pid, std::string(absl::StripAsciiWhitespace(name))};
  }
}

}  // namespace

std::map<std::string, SocketHolder> FindHolders(const Machine& machine,
                                                std::set<std::string> inodes) {
  std::map<std::string, SocketHolder> holders;
  if (inodes.empty()) return holders;
  for (const std::string& name : machine.List("/proc")) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(name, &pid)) TakeSocketsOf(machine, pid, inodes, holders);
  }
  for (const std::string& inode : inodes) holders[inode] = {};
  return holders;
}

}  // namespace uroce::tools
