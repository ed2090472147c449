// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/permissions.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nic/base/fd.h"

namespace uroce::tools {
namespace {

struct CapabilityRow {
  int bit;
  const char* name;
};
constexpr CapabilityRow kNetwork[] = {{CAP_NET_RAW, "CAP_NET_RAW"},
                                      {CAP_NET_ADMIN, "CAP_NET_ADMIN"}};

bool Has(const PermissionFacts& facts, int bit) { return (facts.capabilities >> bit & 1) != 0; }

DeviceFile Look(const Machine& machine, const std::string& path) {
  return {machine.Exists(path), machine.MayUse(path)};
}

Finding CheckNetwork(const PermissionFacts& facts) {
  std::vector<std::string> missing;
  for (const CapabilityRow& row : kNetwork) {
    if (!Has(facts, row.bit)) missing.emplace_back(row.name);
  }
  if (missing.empty()) return {Level::kOk, "permissions", "may use every kind of port", ""};
  return {
      Level::kNote, "permissions",
      absl::StrCat("no ", absl::StrJoin(missing, ", "),
                   ": uroced started by you serves the in-process wire, UDP sockets (udp=), memif, "
                   "vhost-user and pcap files, not kernel interfaces (iface=)"),
      "sudo uroced"};
}

Finding CheckTun(const PermissionFacts& facts) {
  if (facts.tun.usable) return {Level::kOk, "permissions", "/dev/net/tun may be used", ""};
  return {Level::kNote, "permissions",
          absl::StrCat("/dev/net/tun ", facts.tun.exists ? "may not be opened" : "is missing",
                       ": no TAP ports and no exception path"),
          facts.tun.exists ? "sudo chmod 0666 /dev/net/tun" : "sudo modprobe tun"};
}

/// The daemon passes /dev/userfaultfd on. Without it programs still have the unprivileged features,
/// and in most containers none.
Finding CheckUserfaultfd(const PermissionFacts& facts) {
  if (facts.userfaultfd.usable) {
    return {Level::kOk, "permissions", "/dev/userfaultfd: memory is registered without copies", ""};
  }
  if (facts.userfaultfd_errno == 0) {
    return {Level::kNote, "permissions",
            "/dev/userfaultfd may not be opened: a system call that writes into memory while it is "
            "being registered fails with EFAULT, and memory shared with a heap is copied",
            "sudo sysctl -w vm.unprivileged_userfaultfd=1"};
  }
  return {Level::kOk, "permissions",
          absl::StrCat("userfaultfd: ", strerror(facts.userfaultfd_errno),
                       ": memory is registered without copies all the same; threads that write to "
                       "it meanwhile wait in a handler of SIGSEGV, and a program of which a thread "
                       "blocks that signal has its memory copied (uroce mr)"),
          ""};
}

}  // namespace

PermissionFacts ReadPermissions(const Machine& machine) {
  PermissionFacts facts;
  const std::optional<std::string> status = machine.Read("/proc/self/status");
  const std::optional<std::string> effective = FieldOf(status.value_or(""), "CapEff");
  if (!effective || !absl::SimpleHexAtoi(*effective, &facts.capabilities)) facts.capabilities = 0;
  facts.userfaultfd = Look(machine, "/dev/userfaultfd");
  facts.tun = Look(machine, "/dev/net/tun");
  const Fd probe(
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  facts.userfaultfd_errno = probe ? 0 : errno;
  return facts;
}

Findings CheckPermissions(const PermissionFacts& facts) {
  return {CheckNetwork(facts), CheckTun(facts), CheckUserfaultfd(facts)};
}

}  // namespace uroce::tools
