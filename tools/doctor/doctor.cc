// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/doctor.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/client/launch.h"
#include "tools/doctor/contention.h"
#include "tools/doctor/daemon.h"
#include "tools/doctor/hugepages.h"
#include "tools/doctor/interfaces.h"
#include "tools/doctor/kernel.h"
#include "tools/doctor/limits.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/nics.h"
#include "tools/doctor/permissions.h"
#include "tools/doctor/programs.h"
#include "tools/doctor/roce_port.h"
#include "tools/doctor/shared_addresses.h"

namespace uroce::tools {
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

std::string Counted(size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
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
  Append(findings, CheckSharedAddresses(ReadSharedAddresses(machine), daemon.pid));
  Append(findings, CheckPrograms(ReadPrograms()));
  return findings;
}

std::string RenderFindings(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-7s  %-*s  %s\n", WordOf(finding.level), kCheckColumn,
                          finding.check, finding.text);
    if (finding.fix.empty()) continue;
    absl::StrAppendFormat(&text, "%-7s  %-*s    %s\n", "", kCheckColumn, "", finding.fix);
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
  return json.dump(2) + "\n";
}

size_t CountOf(const Findings& findings, Level level) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [level](const Finding& f) { return f.level == level; }));
}

}  // namespace uroce::tools
