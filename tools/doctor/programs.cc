// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/programs.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/client/launch.h"
#include "tools/extcap/folders.h"

namespace uroce::tools {
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

}  // namespace uroce::tools
