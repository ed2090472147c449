// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/doctor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/client/launch.h"
#include "tools/client/printable.h"
#include "tools/doctor/abstract_names.h"
#include "tools/doctor/daemon.h"
#include "tools/doctor/kernel.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/network.h"
#include "tools/extcap/extcap.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

// ---- Programs and libraries ----

namespace {

/// A program, and the package that has it.
struct PackageRow {
  const char* program;
  const char* package;
  const char* purpose;
};
constexpr PackageRow kPackages[] = {
    {"ibv_devinfo", "ibverbs-utils", "examples of verbs programs"},
    {"ib_write_bw", "perftest", "measurements"},
    {"tshark", "tshark", "captures decoded in a terminal"},
};

bool IsInPath(const std::string& program) {
  const char* path = getenv("PATH");
  for (const absl::string_view directory : absl::StrSplit(path ? path : "", ':')) {
    if (access(absl::StrCat(directory, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool Has(const ProgramFacts& facts, const std::string& program) {
  return std::find(facts.found.begin(), facts.found.end(), program) != facts.found.end();
}

void CheckLibraries(const ProgramFacts& facts, Findings& findings) {
  if (facts.library.empty()) {
    findings.push_back({Level::kProblem, "programs",
                        "liburoce.so is neither installed nor beside this program: no program can "
                        "be given the NICs",
                        "ninja -C build && sudo ninja -C build install"});
  }
  if (!facts.library.empty() && !facts.has_front) {
    findings.push_back(
        {Level::kProblem, "programs",
         "liburoce-verbs.so is not beside liburoce.so: programs that open libibverbs "
         "by dlopen see no devices",
         "ninja -C build && sudo ninja -C build install"});
  }
  if (!facts.has_libibverbs) {
    findings.push_back({Level::kProblem, "programs",
                        "libibverbs.so.1 is missing: verbs programs do not start",
                        "sudo apt-get install libibverbs1"});
  }
}

}  // namespace

ProgramFacts ReadPrograms() {
  ProgramFacts facts;
  for (const PackageRow& row : kPackages) {
    if (IsInPath(row.program)) facts.found.emplace_back(row.program);
  }
  if (IsInPath("wireshark")) facts.found.emplace_back("wireshark");
  facts.library = FindLibrary().value_or("");
  facts.has_front = CheckFront(facts.library).ok();
  if (void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    facts.has_libibverbs = true;
    dlclose(library);
  }
  facts.extcap_installed = !InstalledExtcap().empty();
  facts.uroce = OwnPath();
  return facts;
}

Findings CheckPrograms(const ProgramFacts& facts) {
  Findings findings;
  CheckLibraries(facts, findings);
  for (const PackageRow& row : kPackages) {
    if (Has(facts, row.program)) continue;
    findings.push_back({Level::kNote, "programs",
                        absl::StrCat(row.program, " is not there (", row.purpose, ")"),
                        absl::StrCat("sudo apt-get install ", row.package)});
  }
  const bool has_wireshark = Has(facts, "tshark") || Has(facts, "wireshark");
  if (has_wireshark && !facts.extcap_installed) {
    findings.push_back(
        {Level::kNote, "programs",
         "Wireshark does not list uroce's devices: uroce-extcap is not in its folder",
         absl::StrCat("sudo ", facts.uroce, " extcap --install")});
  }
  if (findings.empty()) {
    findings.push_back({Level::kOk, "programs",
                        absl::StrCat(absl::StrJoin(facts.found, ", "), ", uroce-extcap"), ""});
  }
  return findings;
}

// ---- All checks ----

namespace {

constexpr int kCheckColumn = 12;  // The width of a check's name.

/// The path of uroced: in the same build tree, or installed.
std::string FindUroced() {
  std::error_code error;
  const auto place = std::filesystem::path(OwnPath()).parent_path();
  for (const char* way : {"../nic/uroced", "../sbin/uroced"}) {
    const auto found = std::filesystem::canonical(place / way, error);
    if (!error) return found.string();
  }
  return "uroced";
}

bool IsBesideKernel(const DaemonFacts& daemon) {
  return std::any_of(daemon.devices.begin(), daemon.devices.end(),
                     [](const DaemonDevice& device) { return !device.interface.empty(); });
}

void Append(Findings& all, Findings more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

const char* WordOf(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kProblem:
      return "problem";
  }
  return "";
}

}  // namespace

Findings Examine(const std::string& socket_path) {
  const Machine machine;
  const DaemonFacts daemon = ReadDaemon(socket_path);
  std::vector<pid_t> pids = daemon.program_pids;
  if (daemon.pid != 0) pids.insert(pids.begin(), daemon.pid);
  Findings findings = CheckDaemon(daemon, FindUroced());
  if (daemon.connect_errno == 0 && !daemon.is_stopped) {
    Append(findings, CheckContention(ReadContention(socket_path, daemon.pid)));
  }
  Append(findings, CheckKernel(ReadKernel(machine)));
  Append(findings, CheckPermissions(ReadPermissions(machine)));
  Append(findings, CheckLimits(ReadLimits(machine, pids)));
  Append(findings, CheckHugepages(ReadHugepages(machine), daemon.connect_errno == 0));
  Append(findings, CheckNics(ReadNics(machine)));
  Append(findings, CheckInterfaces(ReadInterfaces(machine)));
  Append(findings, CheckRocePort(ReadRocePort(machine), IsBesideKernel(daemon)));
  if (const auto names = ReadAbstractNames()) {
    Append(findings, CheckSharedAddresses(ReadSharedAddresses(machine, *names), daemon.pid));
  } else {
    findings.push_back({Level::kNote, "addresses",
                        "the kernel does not say whether several NICs serve one (unix_diag)",
                        "sudo modprobe unix_diag"});
  }
  Append(findings, CheckPrograms(ReadPrograms()));
  return findings;
}

std::string RenderFindings(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-7s  %-*s  %s\n", WordOf(finding.level), kCheckColumn,
                          finding.check, Printable(finding.text));
    if (finding.fix.empty()) continue;
    absl::StrAppendFormat(&text, "%-7s  %-*s    %s\n", "", kCheckColumn, "",
                          Printable(finding.fix));
  }
  absl::StrAppend(&text, Counted(CountOf(findings, Level::kProblem), "problem"), ", ",
                  Counted(CountOf(findings, Level::kNote), "note"), "\n");
  return text;
}

std::string FindingsToJson(const Findings& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", WordOf(finding.level)},
                    {"check", finding.check},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  }
  const nlohmann::ordered_json json = {{"findings", list},
                                       {"problems", CountOf(findings, Level::kProblem)},
                                       {"notes", CountOf(findings, Level::kNote)}};
  // Names of processes may be no UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

size_t CountOf(const Findings& findings, Level level) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [level](const Finding& f) { return f.level == level; }));
}

}  // namespace uroce::tools
