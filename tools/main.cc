// SPDX-License-Identifier: Apache-2.0
// The `uroce` command: parses the command line, in which the chosen sub-command runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "nic/base/suggestion.h"
#include "tools/commands/captures.h"
#include "tools/commands/changes.h"
#include "tools/commands/command.h"
#include "tools/commands/launchers.h"
#include "tools/commands/listings.h"
#include "tools/commands/machine.h"
#include "tools/commands/watching.h"

namespace uroce::tools {
namespace {

int Main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::vector<std::string> program = TakeProgram(arguments);
  Invocation invocation;
  CLI::App app("uroce: run programs on a software RoCEv2 NIC and look at it", "uroce");
  app.set_version_flag("--version", "uroce " UROCE_VERSION);
  app.require_subcommand(0, 1);  // Words of a filter, "udp port 4791", begin no other command.
  AddSocketFlag(app, invocation);
  AddLaunchers(app, invocation, program);
  AddListings(app, invocation);
  AddWatching(app, invocation);
  AddChanges(app, invocation);
  AddCaptures(app, invocation);
  AddExtcap(app, invocation);
  AddDoctor(app, invocation);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end.
  try {
    app.parse(arguments);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream text;
      app.exit(error, text, text);
      return Print(text.str());
    }
    fprintf(stderr, "uroce: %s%s (see uroce --help)\n", error.what(), SuggestionFor(app).c_str());
    return kExitUsage;
  }
  return invocation.exit_status;
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) { return uroce::tools::Main(argc, argv); }
