// SPDX-License-Identifier: Apache-2.0
// `uroce sim`: any network, with the daemon's transport, in virtual time.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tools/client/command_line.h"
#include "tools/commands/commands.h"
#include "tools/sim/command.h"

namespace uroce::tools {

void AddSim(const Command& app, Invocation& invocation) {
  const auto options = std::make_shared<sim::SimOptions>();
  const Command command =
      app.AddCommand("sim", "Simulate a network of NICs with the daemon's own transport");
  command.AddValue("SCENARIO", options->scenario, "A file in TOML, or a name that --list shows");
  command.AddFlag("--list", options->lists, "List the ready scenarios");
  command.AddFlag("--show", options->shows, "Print the scenario's file, which documents it");
  command
      .AddValue("--set", options->overrides,
                "KEY=VALUE replaces a value of the scenario: nic.cc=delay, workload.0.bytes=1M")
      .TakeOneWord();
  command.AddValue("--sweep", options->sweep,
                   "KEY=A,B,C runs the scenario with each value, on all cores, and compares");
  command
      .AddValue("--repeat", options->repeats,
                "Run with so many seeds, on all cores, and print confidence intervals")
      .Check(1, 10'000);
  command.AddFlag("--once", options->runs_once,
                  "One run, although the scenario brings values to sweep");
  command.AddFlag("--json", options->prints_json,
                  "Print the results as JSON (docs/sim.schema.json)");
  command.AddValue("--html", options->html,
                   "Write a page with graphs to this file, which opens without a network");
  command.AddValue("--d3", options->library,
                   "The library d3 for --html, if not that of Debian's libjs-d3");
  command
      .AddValue("--pcap", options->pcaps,
                "HOST or HOST=FILE: write what the NIC of a host would have captured")
      .TakeOneWord();
  command.OnChosen([options, &invocation] {
    if (const absl::Status status = sim::RunSim(*options); !status.ok()) {
      invocation.exit_status = Report(status);
    }
  });
}

}  // namespace uroce::tools
