// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/kernel.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pipeline/os/fd.h"
#include "pipeline/wire/icrc.h"

namespace uroce::tools {

// ---- The kernel's version, and the CPU ----

namespace {

#if defined(__x86_64__)
// The flags that x86-64-v2 adds, spelt as in /proc/cpuinfo: the build assumes x86-64-v2.
constexpr std::array<const char*, 6> kNeededFlags{"cx16",   "lahf_lm", "popcnt",
                                                  "sse4_1", "sse4_2",  "ssse3"};
constexpr char kUpgrade[] = "sudo apt-get install -t bookworm-backports linux-image-amd64";
constexpr char kCrcInstruction[] = "PCLMULQDQ";
#else
constexpr std::array<const char*, 0> kNeededFlags{};  // The build assumes armv8-a alone.
constexpr char kUpgrade[] = "sudo apt-get install -t bookworm-backports linux-image-arm64";
constexpr char kCrcInstruction[] = "PMULL";
#endif

bool IsBefore(const KernelFacts& facts, int major, int minor) {
  return facts.major < major || (facts.major == major && facts.minor < minor);
}

Finding CheckVersion(const KernelFacts& facts) {
  const std::string version = absl::StrCat("Linux ", facts.major, ".", facts.minor);
  if (IsBefore(facts, 5, 14)) {
    return {Level::kProblem, "kernel",
            version + ": memory cannot be prepared for workers (MADV_POPULATE_WRITE, 5.14)",
            kUpgrade};
  }
  if (IsBefore(facts, 6, 1)) {
    return {Level::kNote, "kernel", version + " has no /dev/userfaultfd to pass to programs (6.1)",
            kUpgrade};
  }
  if (IsBefore(facts, 6, 2)) {
    return {Level::kNote, "kernel",
            version + " takes no UDP superframes of iface= (6.2): it sends packet by packet",
            kUpgrade};
  }
  return {Level::kOk, "kernel", version, ""};
}

Finding CheckCpu(const KernelFacts& facts) {
  const std::set<std::string> flags =
      absl::StrSplit(facts.cpu_flags, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  std::vector<std::string> missing;
  for (const char* flag : kNeededFlags) {
    if (!flags.contains(flag)) missing.emplace_back(flag);
  }
  if (!missing.empty()) {
    return {Level::kProblem, "cpu",
            absl::StrCat("no x86-64-v2: lacks ", absl::StrJoin(missing, ", "),
                         "; in a virtual machine the host can pass its own CPU on"),
            "qemu-system-x86_64 -cpu host ..."};
  }
  const std::string text =
      absl::StrCat(facts.cpus, facts.cpus == 1 ? " CPU" : " CPUs", ", ICRC by ", facts.crc_kernel);
  if (facts.crc_kernel == "portable") {
    return {Level::kNote, "cpu",
            absl::StrCat(text, ": ten times slower than with ", kCrcInstruction), ""};
  }
  if (facts.cpus == 1) {
    return {Level::kNote, "cpu", text + ": uroced and programs take turns", ""};
  }
  return {Level::kOk, "cpu", text, ""};
}

Finding CheckPages(const KernelFacts& facts) {
  if (facts.page_bytes == kPageBytes) return {Level::kOk, "pages", "4 KB", ""};
  return {Level::kProblem, "pages",
          absl::StrCat("the kernel's pages have ", facts.page_bytes / 1024,
                       " KB: uroced works with those of 4 KB alone"),
          "sudo apt-get install linux-image-arm64"};
}

}  // namespace

KernelFacts ReadKernel(const Machine& machine) {
  KernelFacts facts;
  const std::string release = machine.Read("/proc/sys/kernel/osrelease").value_or("");
  if (sscanf(release.c_str(), "%d.%d", &facts.major, &facts.minor) != 2) facts = {};
  const std::string cpus = machine.Read("/proc/cpuinfo").value_or("");
  for (const absl::string_view line : absl::StrSplit(cpus, '\n')) {
    if (line.substr(0, 9) == "processor") ++facts.cpus;
  }
  facts.cpu_flags = FieldOf(cpus, "flags").value_or("");
  facts.crc_kernel = wire::CrcKernelName();
  facts.page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return facts;
}

Findings CheckKernel(const KernelFacts& facts) {
  return {CheckVersion(facts), CheckCpu(facts), CheckPages(facts)};
}

// ---- Hugepages ----

namespace {

constexpr char kDirectory[] = "/sys/kernel/mm/hugepages";
constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kWantedBytes = 1024 * kMib;  // A daemon with a port or two of large frames.
constexpr char kReserve[] = "sudo sysctl -w vm.nr_hugepages=512";

}  // namespace

std::vector<HugepagePool> ReadHugepages(const Machine& machine) {
  std::vector<HugepagePool> pools;
  for (const std::string& name : machine.List(kDirectory)) {
    absl::string_view size = name;
    uint64_t page_kib = 0;
    if (!absl::ConsumePrefix(&size, "hugepages-") || !absl::ConsumeSuffix(&size, "kB")) continue;
    if (!absl::SimpleAtoi(size, &page_kib)) continue;
    const std::string place = absl::StrCat(kDirectory, "/", name);
    pools.push_back({.page_bytes = page_kib * 1024,
                     .total = machine.ReadNumber(place + "/nr_hugepages").value_or(0),
                     .free = machine.ReadNumber(place + "/free_hugepages").value_or(0)});
  }
  return pools;
}

Findings CheckHugepages(const std::vector<HugepagePool>& pools, bool daemon_runs) {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  for (const HugepagePool& pool : pools) {
    total_bytes += pool.total * pool.page_bytes;
    free_bytes += pool.free * pool.page_bytes;
  }
  if (total_bytes == 0) {
    return {{Level::kNote, "hugepages",
             "none reserved; ordinary pages serve all but zero copy between ports and large NICs",
             kReserve}};
  }
  const std::string amount =
      absl::StrCat(total_bytes / kMib, " MiB reserved, ", free_bytes / kMib, " MiB free");
  if (free_bytes < kWantedBytes && !daemon_runs) {
    return {{Level::kNote, "hugepages",
             amount + ": uroced takes ordinary pages if its own need more", kReserve}};
  }
  return {{Level::kOk, "hugepages", amount, ""}};
}

// ---- Capabilities and devices ----

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

// ---- Limits ----

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
