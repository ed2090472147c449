// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/kernel.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nic/base/page.h"
#include "pipeline/wire/icrc.h"

namespace uroce::tools {
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
  if (facts.page_bytes == nic::kPageBytes) return {Level::kOk, "pages", "4 KB", ""};
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

}  // namespace uroce::tools
