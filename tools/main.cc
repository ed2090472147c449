// SPDX-License-Identifier: Apache-2.0
// The `uroce` command: parses the command line, in which the chosen sub-command runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "pipeline/os/fd.h"
#include "pipeline/os/suggestion.h"
#include "tools/commands/captures.h"
#include "tools/commands/changes.h"
#include "tools/commands/command.h"
#include "tools/commands/listings.h"
#include "tools/commands/machine.h"

namespace uroce::tools {
namespace {

/// The command that was recognised last. Its words are wrong, and its help says more.
const CLI::App& LastCommand(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : LastCommand(*chosen.back());
}

/// "uroce fault set" of the command `set`.
std::string WordsOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : WordsOf(*parent) + " " + command.get_name();
}

/// ": show, reload, set" where one of them is missing.
std::string MissingCommands(const CLI::App& command, const CLI::ParseError& error) {
  if (command.get_parent() == nullptr || error.get_name() != "RequiredError") return "";
  std::string names;
  for (const CLI::App* each : command.get_subcommands({})) {
    names += (names.empty() ? ": " : ", ") + each->get_name();
  }
  return names;
}

int Complain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = LastCommand(app);
  fprintf(stderr, "uroce: %s%s%s (see %s --help)\n", error.what(),
          MissingCommands(command, error).c_str(), SuggestionFor(app).c_str(),
          WordsOf(command).c_str());
  return kExitUsage;
}

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
    return Complain(app, error);
  }
  return invocation.exit_status;
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) {
  uroce::TakeClosedStandardFds();
  return uroce::tools::Main(argc, argv);
}
