// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/analyze/input/capture_set.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/report.h"
#include "tools/analyze/report_json.h"
#include "tools/analyze/story/analysis.h"
#include "tools/capture/recorder.h"
#include "tools/page/page.h"

namespace uroce::tools::analyze {

// Made by the build, which embeds the files of tools/analyze/page (tools/embed.py).
extern const char kPageStyle[];
extern const char kPageBody[];
extern const char kPageScript[];

namespace {

absl::Status WriteText(const std::string& text) {
  if (fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("standard output: ", strerror(errno)));
}

void ReadAll(CaptureSet& set, const PacketFilter& filter, CapturePoints& points,
             Analysis& analysis) {
  PacketReader reader;
  CapturedPacket packet;
  for (SetFrame next; set.Next(next);) {
    if (!filter.Matches(next.frame.bytes, next.frame.wire_bytes)) continue;
    reader.Read(next.frame, packet);
    packet.file = next.file;
    packet.point = points.NumberOf(next.file, next.frame.interface_index, packet.inner_interface);
    analysis.OnPacket(packet);
  }
  analysis.Finish();
}

std::string TextFor(const AnalyzeOptions& options, const Report& report) {
  if (options.prints_json) return JsonOf(report);
  if (options.prints_csv) return CsvOf(report);
  return TextOf(report, options.most_findings);
}

}  // namespace

absl::Status RunAnalyze(const AnalyzeOptions& options, AnalyzeOutcome& outcome) {
  absl::StatusOr<PacketFilter> filter = PacketFilter::Compile(options.filter);
  if (!filter.ok()) return filter.status();
  absl::StatusOr<CaptureSet> set = CaptureSet::Open(options.files);
  if (!set.ok()) return set.status();
  CapturePoints points;
  constexpr size_t kMostPlotPoints = 8192;
  Analysis analysis({.most_plot_points = options.html.empty() ? 0 : kMostPlotPoints});
  ReadAll(*set, *filter, points, analysis);
  const Report report = MakeReport(analysis, *set, points);
  if (absl::Status status = WriteText(TextFor(options, report)); !status.ok()) return status;
  if (!options.html.empty()) {
    const PageParts parts{"uroce analyze", kPageStyle, kPageBody, kPageScript};
    absl::Status status = WritePage(parts, JsonOf(report), options.library, options.html);
    if (!status.ok()) return status;
  }
  outcome.found = options.checks && CountFrom(report, options.check) != 0;
  // What was read up to a damaged place is reported all the same.
  return set->status();
}

}  // namespace uroce::tools::analyze
