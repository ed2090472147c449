// SPDX-License-Identifier: Apache-2.0
// `uroce analyze`: what happened in captures, and why.
#include "tools/commands/commands.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "tools/analyze/command.h"
#include "tools/client/command_line.h"

namespace uroce::tools {
namespace {

struct AnalyzeFlags {
  analyze::AnalyzeOptions options;
  std::string check;
};

int Analyze(const std::string& socket_path, AnalyzeFlags& flags) {
  analyze::AnalyzeOptions& options = flags.options;
  options.socket_path = socket_path;
  if (options.files.empty() != options.is_live) {
    return Report(absl::InvalidArgumentError("one of FILE and --live is needed, and not both"));
  }
  if (!flags.check.empty()) {
    const std::optional<analyze::Severity> severity = analyze::SeverityOf(flags.check);
    if (!severity) {
      return Report(absl::InvalidArgumentError("--check: " + flags.check +
                                               " is none of note, warning, error"));
    }
    options.checks = true;
    options.check = *severity;
  }
  analyze::AnalyzeOutcome outcome;
  const absl::Status status = analyze::RunAnalyze(options, outcome);
  if (!status.ok()) return Report(status);
  return outcome.found ? kExitFailed : 0;
}

}  // namespace

void AddAnalyze(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<AnalyzeFlags>();
  const Command command =
      app.AddCommand("analyze", "Tell what happened in captures, and why: losses, NAKs, resends");
  AddSocketFlag(command, invocation);
  command.AddValue("FILE", flags->options.files,
                   "pcap or pcapng files of one moment, gzip or zstd too; - is stdin");
  command.AddFlag("--live", flags->options.is_live,
                  "Capture what the daemon sends and receives, until Ctrl-C");
  command.AddValue("--for", flags->options.live_seconds, "End --live after so many seconds")
      .Check([](std::string& word) {
        double seconds = 0;
        const bool is_right = absl::SimpleAtod(word, &seconds) && seconds > 0 && seconds <= 1e9;
        return is_right ? std::string() : word + " is no number of seconds above 0";
      });
  command.AddValue("-f,--filter", flags->options.filter,
                   "Only frames that match this libpcap expression (pcap-filter(7))");
  command.AddValue("--check", flags->check,
                   "End with 1 if there is a finding of this severity (note, warning, error) "
                   "or a higher one, or no RoCEv2 packet");
  Flag json = command.AddFlag("--json", flags->options.prints_json,
                              "Print the report as JSON (docs/analyze.schema.json)");
  command.AddFlag("--csv", flags->options.prints_csv, "Print the findings as CSV").Exclude(json);
  command.AddValue("--html", flags->options.html,
                   "Write a page with graphs to this file, which opens without a network");
  command.AddValue("--d3", flags->options.library,
                   "The library d3 for --html, if not that of Debian's libjs-d3");
  command.AddValue("--findings", flags->options.most_findings,
                   "Print at most so many findings; 0: all. 200 if not given");
  command.OnChosen(
      [flags, &invocation] { invocation.exit_status = Analyze(invocation.SocketPath(), *flags); });
}

}  // namespace uroce::tools
