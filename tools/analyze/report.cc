// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

constexpr size_t kMostLines = 10;

std::string Plural(uint64_t count, absl::string_view one, absl::string_view more) {
  return absl::StrCat(count, " ", count == 1 ? one : more);
}

size_t ConnectionCount(const Analysis& analysis) {
  return static_cast<size_t>(std::ranges::count_if(
      analysis.connections(), [](const auto& connection) { return !connection->was_merged; }));
}

std::string KindsText(const Report& report, Severity severity) {
  std::string text;
  for (int i = 0; i < kFindingKindCount; ++i) {
    const auto kind = static_cast<FindingKind>(i);
    const uint64_t count = report.analysis->log().count(kind);
    if (count == 0 || InfoOf(kind).severity != severity) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " x ", InfoOf(kind).title);
  }
  return text;
}

/// The connection with most findings from warnings on.
std::string WorstText(const Report& report) {
  std::map<uint32_t, uint64_t> counts;
  for (const Finding& finding : report.findings) {
    if (finding.connection != Finding::kNone && finding.severity != Severity::kNote) {
      ++counts[finding.connection];
    }
  }
  const auto worst =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  if (worst == counts.end() || counts.size() < 2) return "";
  return absl::StrCat("Most of it: connection ", worst->first, ", ",
                      EndsText(*report.analysis->connections()[worst->first]), " (",
                      Plural(worst->second, "finding", "findings"), ")");
}

std::string FramesLine(const Report& report) {
  const CaptureTotals& totals = report.analysis->totals();
  std::string text = absl::StrCat(
      Plural(totals.frames, "frame", "frames"), " (", BytesText(totals.bytes), ") in ",
      TimeText(totals.last_ns - totals.first_ns), ", ", PacketCount(report), " of them RoCEv2");
  if (totals.mads != 0) absl::StrAppend(&text, ", ", totals.mads, " to queue pairs 1");
  if (totals.cut != 0) absl::StrAppend(&text, ", ", totals.cut, " cut by the capture");
  return text;
}

/// What limits the analysis.
std::string LimitsLine(const Report& report) {
  const CaptureTotals& totals = report.analysis->totals();
  std::string text;
  const auto add = [&](const std::string& part) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  };
  if (report.dropped != 0) add(absl::StrCat("the capture dropped ", report.dropped, " frames"));
  if (report.is_cut) add("a file ends within a frame");
  if (totals.kinds[static_cast<size_t>(FrameKind::kCut)] != 0) {
    add(Plural(totals.kinds[static_cast<size_t>(FrameKind::kCut)], "frame is", "frames are") +
        " cut within the headers");
  }
  if (totals.kinds[static_cast<size_t>(FrameKind::kOffloaded)] != 0) {
    add(Plural(totals.kinds[static_cast<size_t>(FrameKind::kOffloaded)], "frame holds",
               "frames hold") +
        " many packets each (captured before segmentation) and are not analyzed");
  }
  if (totals.left_out != 0) add(absl::StrCat(totals.left_out, " packets of further connections"));
  return text.empty() ? "" : "Limits: " + text;
}

// ---- Connections ----

std::string CreditsText(const StreamAmounts& amounts) {
  if (amounts.least_credit_code == wire::kCreditsUnlimited) return "";
  return absl::StrCat(", least credit code ", amounts.least_credit_code);
}

void AppendStream(const RequestStream& stream, const End& requester, std::string& text) {
  const StreamAmounts& amounts = stream.amounts();
  if (amounts.requests == 0) return;
  absl::StrAppend(&text, "   ", AddressText(requester.address), ": ", amounts.requests,
                  " request packets, ", BytesText(amounts.request_bytes), " out, ",
                  BytesText(amounts.response_bytes), " in by READ, at most ",
                  amounts.most_in_flight, " in flight");
  if (amounts.most_reads != 0) absl::StrAppend(&text, ", ", amounts.most_reads, " READs at a time");
  if (stream.recovery().resent_packets() != 0) {
    absl::StrAppend(&text, ", ", stream.recovery().resent_packets(), " sent again");
  }
  absl::StrAppend(&text, CreditsText(amounts), "\n");
  for (size_t i = 0; i < kOperationCount; ++i) {
    const MessageAmount& messages = amounts.messages[i];
    if (messages.messages == 0) continue;
    absl::StrAppend(&text, "     ", messages.messages, " x ", NameOf(static_cast<Operation>(i)),
                    " of ", BytesText(messages.least_bytes));
    if (messages.most_bytes != messages.least_bytes) {
      absl::StrAppend(&text, " to ", BytesText(messages.most_bytes));
    }
    if (messages.latency.count() != 0) {
      absl::StrAppend(&text, ", first packet to answer: median ",
                      TimeText(static_cast<int64_t>(messages.latency.Quantile(0.5))), ", 99 % ",
                      TimeText(static_cast<int64_t>(messages.latency.Quantile(0.99))), ", most ",
                      TimeText(static_cast<int64_t>(messages.latency.most())));
    }
    absl::StrAppend(&text, "\n");
  }
}

std::string RateOf(const Connection& connection) {
  const int64_t passed = connection.last_ns - connection.first_ns;
  if (passed <= 0) return "";
  return ", " + RateText(static_cast<double>(connection.bytes) * 8e9 / static_cast<double>(passed));
}

void AppendConnection(const Connection& connection, std::string& text) {
  absl::StrAppend(&text, connection.number, "  ", EndsText(connection), "  ",
                  NameOf(connection.service), ", ", Plural(connection.packets, "packet", "packets"),
                  ", ", BytesText(connection.bytes), RateOf(connection));
  if (connection.service != wire::Service::kUd) {
    absl::StrAppend(&text, ", joined: ", NameOf(connection.joined));
  }
  const View* const view = connection.MainView();
  uint32_t mtu = connection.mtu_bytes;
  for (size_t i = 0; view != nullptr && i < 2; ++i) {
    if (view->of[i]) mtu = std::max(mtu, view->of[i]->mtu_bytes());
  }
  if (mtu != 0) absl::StrAppend(&text, ", MTU ", mtu);
  if (!connection.cm_service.empty()) absl::StrAppend(&text, ", ", connection.cm_service);
  if (connection.setup_ns != 0) {
    absl::StrAppend(&text, ", connected in ", TimeText(connection.setup_ns));
  }
  absl::StrAppend(&text, "\n");
  for (size_t i = 0; view != nullptr && i < 2; ++i) {
    if (view->of[i]) AppendStream(*view->of[i], connection.ends[i], text);
  }
}

// ---- Findings ----

/// Findings by their cause, so that each stands behind what caused it.
class FindingTree {
 public:
  FindingTree(const Report& report, size_t most) : report_(report), most_(most) {
    for (size_t i = 0; i < report.findings.size(); ++i) index_[report.findings[i].id] = i;
    for (size_t i = 0; i < report.findings.size(); ++i) {
      const Finding& finding = report.findings[i];
      const bool has_cause = finding.cause != 0 && index_.contains(finding.cause);
      (has_cause ? effects_[finding.cause] : roots_).push_back(i);
    }
  }
  std::string Text() {
    for (const size_t root : roots_) Append(root, 0);
    if (written_ < report_.findings.size()) {
      absl::StrAppend(&text_, "  ... ", report_.findings.size() - written_,
                      " more (--findings 0 shows all)\n");
    }
    return std::move(text_);
  }

 private:
  void Append(size_t index, int depth) {
    constexpr int kMostDepth = 8;
    if (most_ != 0 && written_ == most_) return;
    const Finding& finding = report_.findings[index];
    ++written_;
    absl::StrAppend(&text_,
                    absl::StrFormat("%12s ", SecondsText(finding.time_ns -
                                                         report_.analysis->totals().first_ns)),
                    std::string(static_cast<size_t>(depth) * 2, ' '), depth > 0 ? "-> " : "",
                    NameOf(finding.severity), ": ", InfoOf(finding.kind).title, ": ", finding.text);
    if (depth == 0) {
      if (finding.connection != Finding::kNone) {
        absl::StrAppend(&text_, " [connection ", finding.connection, ", ",
                        AboutText(report_, finding), "]");
      }
      if (report_.points.size() > 1) {
        absl::StrAppend(&text_, " [", report_.points[finding.point], "]");
      }
    }
    absl::StrAppend(&text_, "\n");
    if (depth == kMostDepth) return;
    for (const size_t effect : effects_[finding.id]) Append(effect, depth + 1);
  }

  const Report& report_;
  size_t most_;
  std::map<uint32_t, size_t> index_;
  std::map<uint32_t, std::vector<size_t>> effects_;
  std::vector<size_t> roots_;
  size_t written_ = 0;
  std::string text_;
};

}  // namespace

Report MakeReport(const Analysis& analysis, const CaptureSet& set, const CapturePoints& points) {
  Report report;
  report.analysis = &analysis;
  for (uint32_t i = 0; i < points.size(); ++i) report.points.push_back(points.NameOf(i, set));
  for (const std::unique_ptr<CaptureFile>& file : set.files()) {
    report.files.push_back(file->name());
    report.dropped += file->dropped();
    report.is_cut = report.is_cut || file->is_cut();
  }
  report.findings = analysis.log().Sorted();
  report.left_out = analysis.log().left_out();
  return report;
}

uint64_t CountFrom(const Report& report, Severity severity) {
  uint64_t count = 0;
  for (int i = static_cast<int>(severity); i < kSeverityCount; ++i) {
    count += report.analysis->log().count(static_cast<Severity>(i));
  }
  return count;
}

uint64_t PacketCount(const Report& report) {
  return report.analysis->totals().kinds[static_cast<size_t>(FrameKind::kRoce)];
}

std::string SecondsText(int64_t nanos) {
  return absl::StrFormat("%.6f", static_cast<double>(nanos) / 1e9);
}

std::string AboutEnd(const Report& report, const Finding& finding) {
  return AddressText(
      report.analysis->connections()[finding.connection]->ends[finding.requester].address);
}

std::string AboutText(const Report& report, const Finding& finding) {
  if (finding.connection == Finding::kNone) return "";
  return absl::StrCat("requests of ", AboutEnd(report, finding));
}

std::vector<std::string> SummaryOf(const Report& report) {
  std::vector<std::string> lines;
  const auto add = [&](std::string line) {
    if (!line.empty() && lines.size() < kMostLines) lines.push_back(std::move(line));
  };
  add(FramesLine(report));
  const size_t connections = ConnectionCount(*report.analysis);
  add(Plural(connections, "connection", "connections") + " and flows of datagrams");
  const std::string errors = KindsText(report, Severity::kError);
  const std::string warnings = KindsText(report, Severity::kWarning);
  const std::string notes = KindsText(report, Severity::kNote);
  if (errors.empty() && warnings.empty()) {
    add(PacketCount(report) == 0 ? "There is no RoCEv2 packet to judge" : "Nothing went wrong");
  }
  if (!errors.empty()) add("Errors: " + errors);
  if (!warnings.empty()) add("Warnings: " + warnings);
  if (!notes.empty()) add("Notes: " + notes);
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kError) continue;
    add(absl::StrCat("First error: ", finding.text));
    break;
  }
  add(WorstText(report));
  add(LimitsLine(report));
  return lines;
}

std::string TextOf(const Report& report, size_t most_findings) {
  constexpr size_t kMostConnections = 100;
  std::string text;
  for (const std::string& line : SummaryOf(report)) absl::StrAppend(&text, line, "\n");
  absl::StrAppend(&text, "\nConnections\n");
  size_t shown = 0;
  for (const std::unique_ptr<Connection>& connection : report.analysis->connections()) {
    if (connection->was_merged || ++shown > kMostConnections) continue;
    AppendConnection(*connection, text);
  }
  if (shown > kMostConnections) absl::StrAppend(&text, "... ", shown - kMostConnections, " more\n");
  if (report.findings.empty()) return text;
  absl::StrAppend(&text, "\nFindings (seconds since the first frame; each with what it caused)\n");
  absl::StrAppend(&text, FindingTree(report, most_findings).Text());
  return text;
}

}  // namespace uroce::tools::analyze
