// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/analyze/input/capture_set.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/live.h"
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

/// Status of the standard output, once all is written.
absl::Status EndOutput() {
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("standard output: ", strerror(errno)));
}

/// What is known so far, on one line of a terminal.
class Progress {
 public:
  explicit Progress(bool is_wanted) : is_on_(is_wanted && isatty(STDERR_FILENO) != 0) {}
  void Show(const Analysis& analysis) {
    if (!is_on_ || time(nullptr) == shown_) return;
    shown_ = time(nullptr);
    const FindingLog& log = analysis.log();
    fprintf(stderr, "\r%llu packets, %zu connections, %llu warnings, %llu errors ",
            static_cast<unsigned long long>(analysis.totals().frames),
            analysis.connections().size(),
            static_cast<unsigned long long>(log.count(Severity::kWarning)),
            static_cast<unsigned long long>(log.count(Severity::kError)));
  }
  void Clear() const {
    if (shown_ != 0) fputs("\r\033[K", stderr);
  }

 private:
  bool is_on_;
  time_t shown_ = 0;
};

void ReadAll(CaptureSet& set, const PacketFilter& filter, CapturePoints& points, Progress progress,
             Analysis& analysis) {
  PacketReader reader;
  CapturedPacket packet;
  for (SetFrame next; set.Next(next);) {
    if (!filter.Matches(next.frame.bytes, next.frame.wire_bytes)) continue;
    reader.Read(next.frame, packet);
    packet.file = next.file;
    packet.point = points.NumberOf(next.file, next.frame.interface_index, packet.inner_interface);
    analysis.OnPacket(packet);
    progress.Show(analysis);
  }
  progress.Clear();
  analysis.Finish();
}

void Print(absl::string_view text) { fwrite(text.data(), 1, text.size(), stdout); }

void PrintReport(const AnalyzeOptions& options, const Report& report) {
  if (options.prints_json) return WriteJson(report, Print);
  Print(options.prints_csv ? CsvOf(report) : TextOf(report, options.most_findings));
}

std::string JsonOf(const Report& report) {
  std::string text;
  WriteJson(report, [&text](absl::string_view piece) { text.append(piece.data(), piece.size()); });
  return text;
}

}  // namespace

namespace {

absl::StatusOr<std::unique_ptr<LiveCapture>> StartLive(const AnalyzeOptions& options) {
  CaptureOptions capture{.filter = options.filter};
  capture.limits.duration_ns = static_cast<uint64_t>(options.live_seconds * 1e9);
  return LiveCapture::Start(options.socket_path, capture);
}

}  // namespace

absl::Status RunAnalyze(const AnalyzeOptions& options, AnalyzeOutcome& outcome) {
  absl::StatusOr<PacketFilter> filter = PacketFilter::Compile(options.filter);
  if (!filter.ok()) return filter.status();
  std::unique_ptr<LiveCapture> live;
  if (options.is_live) {
    absl::StatusOr<std::unique_ptr<LiveCapture>> started = StartLive(options);
    if (!started.ok()) return started.status();
    live = *std::move(started);
  }
  absl::StatusOr<CaptureSet> set =
      live ? CaptureSet::OpenAs(live->path(), LiveCapture::kName) : CaptureSet::Open(options.files);
  if (!set.ok()) {
    const absl::Status status = live ? live->Wait() : absl::OkStatus();
    return status.ok() ? set.status() : status;
  }
  CapturePoints points;
  constexpr size_t kMostPlotPoints = 8192;
  Analysis analysis({.most_plot_points = options.html.empty() ? 0 : kMostPlotPoints});
  ReadAll(*set, *filter, points, Progress(options.is_live), analysis);
  const Report report = MakeReport(analysis, *set, points);
  PrintReport(options, report);
  if (absl::Status status = EndOutput(); !status.ok()) return status;
  if (!options.html.empty()) {
    const PageParts parts{"uroce analyze", kPageStyle, kPageBody, kPageScript};
    absl::Status status = WritePage(parts, JsonOf(report), options.library, options.html);
    if (!status.ok()) return status;
  }
  // A capture of nothing shows that nothing was captured, not that nothing went wrong.
  outcome.found =
      options.checks && (CountFrom(report, options.check) != 0 || PacketCount(report) == 0);
  // What was read up to a damaged place is reported all the same.
  const absl::Status status = live ? live->Wait() : absl::OkStatus();
  return status.ok() ? set->status() : status;
}

}  // namespace uroce::tools::analyze
