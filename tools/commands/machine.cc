// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/machine.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/doctor/doctor.h"
#include "tools/extcap/folders.h"
#include "tools/views/listing.h"
#include "tools/views/render.h"

namespace uroce::tools {
namespace {

int Doctor(const std::string& socket_path, bool json) {
  const Findings findings = Examine(socket_path);
  const int printed =
      Print(json ? RenderJson(kDoctor, FindingsToJson(findings), {}, absl::Now(), false)
                 : RenderFindings(findings));
  if (printed != 0) return printed;
  return CountOf(findings, Level::kProblem) == 0 ? 0 : kExitFailed;
}

struct ExtcapFlags {
  bool install = false;
  bool remove = false;
};

int InstallExtcapLink() {
  const absl::StatusOr<ExtcapLink> link = InstallExtcap();
  if (!link.ok()) return Report(link.status());
  if (!link->hint.empty()) fprintf(stderr, "%s\n", link->hint.c_str());
  const absl::StatusOr<std::string> dissector = InstallDissector();
  if (!dissector.ok()) return Report(dissector.status());
  return Print(absl::StrCat(link->path, "\n", *dissector, "\n"));
}

int Extcap(const ExtcapFlags& flags) {
  if (flags.install) return InstallExtcapLink();
  const absl::StatusOr<std::string> place = flags.remove ? RemoveExtcap() : InstalledExtcap();
  if (!place.ok()) return Report(place.status());
  if (!place->empty()) return Print(*place + "\n");
  return Report(absl::DataLossError("extcap: Wireshark does not find uroce-extcap, see --install"));
}

}  // namespace

void AddExtcap(CLI::App& app, Invocation& invocation) {
  const auto flags = std::make_shared<ExtcapFlags>();
  CLI::App* extcap = app.add_subcommand(
      "extcap", "Say where Wireshark finds the program that lists uroce's devices");
  CLI::Option* install = extcap->add_flag(
      "--install", flags->install, "Link it and the dissector uroce.lua into Wireshark's folders");
  extcap->add_flag("--remove", flags->remove, "Remove these links")->excludes(install);
  extcap->callback([flags, &invocation] { invocation.exit_status = Extcap(*flags); });
}

void AddDoctor(CLI::App& app, Invocation& invocation) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* doctor = app.add_subcommand(
      "doctor", "What is missing on this machine, and the commands that mend it");
  AddSocketFlag(*doctor, invocation);
  doctor->add_flag("--json", *json, "Print JSON");
  doctor->footer("Exit status: 0 without a problem, 1 with one.");
  doctor->callback(
      [json, &invocation] { invocation.exit_status = Doctor(invocation.SocketPath(), *json); });
}

}  // namespace uroce::tools
