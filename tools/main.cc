// SPDX-License-Identifier: Apache-2.0
// The `uroce` command: parses the command line, in which the chosen sub-command runs.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/os/fd.h"
#include "tools/client/command_line.h"
#include "tools/commands/commands.h"

namespace uroce::tools {
namespace {

int Complain(const Complaint& complaint) {
  fprintf(stderr, "uroce: %s%s (see %s --help)\n", complaint.text.c_str(), complaint.hint.c_str(),
          complaint.words.c_str());
  return kExitUsage;
}

int Main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const RunWords words = TakeProgram(arguments);
  Invocation invocation;
  CommandLine line("uroce", "uroce: run programs on a software RoCEv2 NIC and look at it");
  line.SetVersion("uroce " UROCE_VERSION);
  line.RequireOneCommand();
  const Command root = line.root();
  AddSocketFlag(root, invocation);
  AddLaunchers(root.Group("Run programs"), invocation, words);
  const Command see = root.Group("See what the daemon has and does");
  AddListings(see, invocation);
  AddWatching(see, invocation);
  AddChanges(root.Group("Change the daemon while it runs"), invocation);
  const Command record = root.Group("Record packets and understand them");
  AddCaptures(record, invocation);
  AddExtcap(record, invocation);
  AddAnalyze(record, invocation);
  AddSim(root.Group("Try networks"), invocation);
  AddDoctor(root.Group("Check this machine"), invocation);
  const Parsed parsed = line.Parse(std::move(arguments));
  if (parsed.help) return Print(*parsed.help);
  if (parsed.complaint) return Complain(*parsed.complaint);
  return invocation.exit_status;
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) {
  uroce::TakeClosedStandardFds();
  return uroce::tools::Main(argc, argv);
}
