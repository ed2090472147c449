// SPDX-License-Identifier: Apache-2.0
// What an analysis yields, ready to be written in any form: the findings that were asked for, in
// order, and the ten lines that come first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analyze/input/capture_set.h"
#include "tools/analyze/story/analysis.h"

namespace uroce::tools::analyze {

/// Refers to the analysis, which outlives it.
struct Report {
  const Analysis* analysis = nullptr;
  std::vector<std::string> points;  ///< Names of the capture points.
  std::vector<std::string> files;
  std::vector<Finding> findings;  ///< In order of time.
  uint64_t left_out = 0;          ///< Findings that were counted only.
  uint64_t dropped = 0;           ///< Frames that the captures say they dropped.
  bool is_cut = false;            ///< A file ends within a frame.
};

Report MakeReport(const Analysis& analysis, const CaptureSet& set, const CapturePoints& points);

/// The number of findings of a severity at least as high.
uint64_t CountFrom(const Report& report, Severity severity);
/// The number of RoCEv2 packets that were read.
uint64_t PacketCount(const Report& report);

/// The story in text: a summary of at most ten lines, then connections, then findings, each with
/// those that follow from it. `most_findings` 0: all.
std::string TextOf(const Report& report, size_t most_findings);

/// The lines of the summary.
std::vector<std::string> SummaryOf(const Report& report);

/// The address of the requester that a finding with a connection is about.
std::string AboutEnd(const Report& report, const Finding& finding);
/// "1.000250".
std::string SecondsText(int64_t nanos);
/// "requests of 10.0.0.1".
std::string AboutText(const Report& report, const Finding& finding);

}  // namespace uroce::tools::analyze
