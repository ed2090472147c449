// SPDX-License-Identifier: Apache-2.0
// `uroce analyze`: its options, and one run of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/analyze/story/finding.h"

namespace uroce::tools::analyze {

struct AnalyzeOptions {
  std::vector<std::string> files;  ///< "-" is stdin.
  bool is_live = false;            ///< Instead of files: what the daemon sends and receives now.
  std::string socket_path;         ///< Of the daemon.
  double live_seconds = 0;         ///< 0: until a signal.
  std::string filter;              ///< libpcap expression, "" for all frames.
  bool prints_json = false;
  bool prints_csv = false;
  std::string html;              ///< The file of the page; "" for none.
  std::string library;           ///< The plotting library of the page; "": where Debian has it.
  uint64_t most_findings = 200;  ///< In the text; 0: all.
  bool checks = false;           ///< Whether `check` decides over the exit status.
  Severity check = Severity::kWarning;
};

/// What a run came to.
struct AnalyzeOutcome {
  /// With --check: something of its severity or a higher one, or no RoCEv2 packet at all.
  bool found = false;
};

/// Reads all files, or captures, and prints what was asked for. Errors: kInvalidArgument for
/// options and files that cannot be read; kDataLoss when a file is damaged; kUnavailable when the
/// capture failed.
absl::Status RunAnalyze(const AnalyzeOptions& options, AnalyzeOutcome& outcome);

}  // namespace uroce::tools::analyze
