// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/shared_addresses.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
namespace {

constexpr char kSigns[] = "@uroced/address/";  // The kernel writes '@' for the name's first byte.
constexpr size_t kInode = 6;                   // Indices of words in a line of /proc/net/unix.
constexpr size_t kName = 7;

/// An address on an interface, by its index.
using Place = std::pair<uint64_t, std::string>;

/// The inodes of the signs on each place.
std::map<Place, std::vector<std::string>> ReadSigns(const Machine& machine) {
  std::map<Place, std::vector<std::string>> signs;
  const std::string text = machine.Read("/proc/net/unix").value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.size() <= kName || !absl::StartsWith(words[kName], kSigns)) continue;
    const std::vector<std::string> parts = absl::StrSplit(words[kName], '/');
    uint64_t ifindex = 0;
    if (parts.size() != 5 || !absl::SimpleAtoi(parts[2], &ifindex)) continue;
    signs[{ifindex, parts[3]}].push_back(words[kInode]);
  }
  std::erase_if(signs, [](const auto& place) { return place.second.size() < 2; });
  return signs;
}

std::string InterfaceOf(const Machine& machine, uint64_t ifindex) {
  for (const std::string& name : machine.List("/sys/class/net")) {
    if (machine.ReadNumber(absl::StrCat("/sys/class/net/", name, "/ifindex")) == ifindex) {
      return name;
    }
  }
  return absl::StrCat("interface ", ifindex);
}

std::string TextOf(const SocketHolder& holder) {
  return holder.pid == 0 ? std::string("another process (root sees which)")
                         : absl::StrCat(holder.name, " (pid ", holder.pid, ")");
}

Finding Check(const SharedAddresses& shared, pid_t daemon) {
  const auto names = absl::StrJoin(
      shared.holders, " and by ",
      [](std::string* text, const SocketHolder& holder) { absl::StrAppend(text, TextOf(holder)); });
  const auto other = std::ranges::find_if(shared.holders, [&](const SocketHolder& holder) {
    return holder.pid != 0 && holder.pid != daemon;
  });
  return {Level::kProblem, "addresses",
          absl::StrCat(absl::StrJoin(shared.addresses, ", "), " of ", shared.interface,
                       ": served by ", names, "; connections may be refused by the wrong one"),
          other == shared.holders.end() ? "" : absl::StrCat("sudo kill ", other->pid)};
}

}  // namespace

std::vector<SharedAddresses> ReadSharedAddresses(const Machine& machine) {
  const std::map<Place, std::vector<std::string>> signs = ReadSigns(machine);
  std::set<std::string> all;
  for (const auto& [place, inodes] : signs) all.insert(inodes.begin(), inodes.end());
  const std::map<std::string, SocketHolder> holders_of = FindHolders(machine, all);
  std::vector<SharedAddresses> shared;
  for (const auto& [place, inodes] : signs) {
    SharedAddresses one{InterfaceOf(machine, place.first), {place.second}, {}};
    for (const std::string& inode : inodes) one.holders.push_back(holders_of.at(inode));
    std::ranges::sort(one.holders, {}, &SocketHolder::pid);
    const auto same = std::ranges::find_if(shared, [&](const SharedAddresses& each) {
      return each.interface == one.interface && each.holders == one.holders;
    });
    if (same == shared.end()) {
      shared.push_back(std::move(one));
    } else {
      same->addresses.push_back(place.second);
    }
  }
  return shared;
}

Findings CheckSharedAddresses(const std::vector<SharedAddresses>& shared, pid_t daemon) {
  if (shared.empty()) return {{Level::kOk, "addresses", "each is served by one NIC", ""}};
  Findings findings;
  for (const SharedAddresses& one : shared) findings.push_back(Check(one, daemon));
  return findings;
}

}  // namespace uroce::tools
