// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/report_json.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

constexpr std::array<const char*, 3> kWhats = {"", "request", "response"};
constexpr std::array<const char*, 4> kSides = {"", "requester", "responder", "between"};
constexpr std::array<const char*, kPlotKindCount> kPlots = {
    "sent", "resent", "acknowledged", "response", "nak", "rnr_nak", "cnp", "missing"};

/// Writes JSON into a text, member by member: no tree of it is in memory, whose many small pieces
/// take longer to allocate and to free than the text takes to write. The caller closes what it
/// opens. Names of members need no escapes.
class JsonText {
 public:
  JsonText& Open(char bracket) {
    Separate();
    text_.push_back(bracket);
    return *this;
  }
  JsonText& Close(char bracket) {
    text_.push_back(bracket);
    return *this;
  }
  JsonText& Name(absl::string_view name) {
    Separate();
    absl::StrAppend(&text_, "\"", name, "\":");
    return *this;
  }
  template <std::integral Number>
  JsonText& Value(Number value) {
    Separate();
    if constexpr (std::same_as<Number, bool>) {
      text_.append(value ? "true" : "false");
    } else {
      absl::StrAppend(&text_, value);
    }
    return *this;
  }
  JsonText& Value(absl::string_view value);
  JsonText& Null() {
    Separate();
    text_.append("null");
    return *this;
  }
  template <typename T>
  JsonText& Member(absl::string_view name, const T& value) {
    return Name(name).Value(value);
  }
  /// Each element of `list` is a value.
  template <typename List>
  JsonText& Array(absl::string_view name, const List& list) {
    Name(name).Open('[');
    for (const auto& one : list) Value(one);
    return Close(']');
  }

  const std::string& text() const { return text_; }
  /// Keeps the memory for the next text.
  void Clear() { text_.clear(); }

 private:
  /// A comma between two members or elements.
  void Separate() {
    if (text_.empty()) return;
    const char last = text_.back();
    if (last != '{' && last != '[' && last != ':') text_.push_back(',');
  }

  std::string text_;
};

/// Names of files and interfaces need not be UTF-8.
JsonText& JsonText::Value(absl::string_view value) {
  Separate();
  const bool is_plain = std::ranges::all_of(
      value, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) {
    absl::StrAppend(&text_, "\"", value, "\"");
  } else {
    const nlohmann::json text = std::string(value);
    text_ += text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return *this;
}

void WriteLatency(const LatencyHistogram& latency, JsonText& out) {
  out.Name("latency").Open('{');
  out.Member("count", latency.count()).Member("least_ns", latency.least());
  out.Member("median_ns", latency.Quantile(.5)).Member("p99_ns", latency.Quantile(.99));
  out.Member("most_ns", latency.most()).Name("histogram").Open('[');
  latency.Each(
      [&](uint64_t upper, uint64_t count) { out.Open('[').Value(upper).Value(count).Close(']'); });
  out.Close(']').Close('}');
}

void WriteMessages(const StreamAmounts& amounts, JsonText& out) {
  out.Name("messages").Open('[');
  for (size_t i = 0; i < kOperationCount; ++i) {
    const MessageAmount& messages = amounts.messages[i];
    if (messages.messages == 0) continue;
    out.Open('{').Member("operation", NameOf(static_cast<Operation>(i)));
    out.Member("messages", messages.messages).Member("bytes", messages.bytes);
    out.Member("least_bytes", messages.least_bytes).Member("most_bytes", messages.most_bytes);
    WriteLatency(messages.latency, out);
    out.Close('}');
  }
  out.Close(']');
}

void WriteTimeline(const Timeline& timeline, int64_t origin_ns, JsonText& out) {
  out.Name("timeline").Open('{').Member("start_ns", timeline.start_ns() - origin_ns);
  out.Member("interval_ns", timeline.interval_ns());
  const auto column = [&](absl::string_view name, auto member) {
    out.Name(name).Open('[');
    for (const Interval& interval : timeline.intervals()) out.Value(interval.*member);
    out.Close(']');
  };
  column("request_bytes", &Interval::request_bytes);
  column("response_bytes", &Interval::response_bytes);
  column("resent_bytes", &Interval::resent_bytes);
  column("in_flight", &Interval::most_in_flight);
  column("cnps", &Interval::cnps);
  column("marked", &Interval::marked);
  out.Close('}');
}

/// Each point is [time, PSNs since the first, frame].
void WritePlot(const Plot& plot, int64_t origin_ns, JsonText& out) {
  out.Name("plot").Open('{');
  for (size_t i = 0; i < kPlotKindCount; ++i) {
    const auto kind = static_cast<PlotKind>(i);
    if (plot.points(kind).empty()) continue;
    out.Name(kPlots[i]).Open('{').Member("every", plot.stride(kind)).Name("points").Open('[');
    for (const PlotPoint& point : plot.points(kind)) {
      out.Open('[').Value(point.time_ns - origin_ns).Value(point.offset).Value(point.frame);
      out.Close(']');
    }
    out.Close(']').Close('}');
  }
  out.Close('}');
}

void WriteStream(const RequestStream& stream, size_t end, int64_t origin_ns, JsonText& out) {
  const StreamAmounts& amounts = stream.amounts();
  out.Open('{').Member("end", end);
  out.Member("requests", amounts.requests).Member("responses", amounts.responses);
  out.Member("request_bytes", amounts.request_bytes);
  out.Member("response_bytes", amounts.response_bytes);
  out.Member("resent_packets", stream.recovery().resent_packets());
  out.Member("resent_bytes", stream.recovery().resent_bytes());
  out.Member("sequence_naks", amounts.sequence_naks).Member("rnr_naks", amounts.rnr_naks);
  out.Member("marked_requests", amounts.marked_requests);
  out.Member("marked_responses", amounts.marked_responses).Member("cnps", amounts.cnps);
  out.Member("most_in_flight", amounts.most_in_flight).Member("most_reads", amounts.most_reads);
  out.Member("least_round_trip_ns", amounts.round_trip.least_ns);
  out.Member("least_credit_code", amounts.least_credit_code);
  out.Member("first_psn", stream.first_psn().value());
  WriteMessages(amounts, out);
  WriteTimeline(amounts.timeline, origin_ns, out);
  if (stream.plot().is_on()) WritePlot(stream.plot(), origin_ns, out);
  out.Close('}');
}

void WriteEnd(const End& end, JsonText& out) {
  out.Open('{').Member("address", AddressText(end.address)).Name("qpn");
  end.knows_qpn ? out.Value(end.qpn.value()) : out.Null();
  out.Close('}');
}

void WriteConnection(const Report& report, const Connection& connection, JsonText& out) {
  const int64_t origin_ns = report.analysis->totals().first_ns;
  uint32_t mtu = connection.mtu_bytes;
  out.Open('{').Member("number", connection.number).Name("ends").Open('[');
  for (const End& end : connection.ends) WriteEnd(end, out);
  out.Close(']').Member("service", NameOf(connection.service));
  out.Member("joined", NameOf(connection.joined)).Member("packets", connection.packets);
  out.Member("bytes", connection.bytes).Name("requesters").Open('[');
  const View* const view = connection.MainView();
  for (size_t i = 0; view != nullptr && i < 2; ++i) {
    if (!view->of[i] || view->of[i]->amounts().requests == 0) continue;
    mtu = std::max(mtu, view->of[i]->mtu_bytes());
    WriteStream(*view->of[i], i, origin_ns, out);
  }
  out.Close(']').Member("mtu", mtu).Member("cm_service", connection.cm_service);
  out.Member("setup_ns", connection.setup_ns);
  out.Member("first_ns", connection.first_ns - origin_ns);
  out.Member("last_ns", connection.last_ns - origin_ns).Close('}');
}

std::vector<uint64_t> FramesOf(const Finding& finding) {
  std::vector<uint64_t> frames;
  for (const uint64_t frame : finding.frames) {
    if (frame != 0) frames.push_back(frame);
  }
  return frames;
}

void WriteFinding(const Report& report, const Finding& finding, JsonText& out) {
  const auto or_null = [&](absl::string_view name, uint32_t value, bool is_known) {
    out.Name(name);
    is_known ? out.Value(value) : out.Null();
  };
  const bool has_connection = finding.connection != Finding::kNone;
  out.Open('{').Member("id", finding.id);
  or_null("cause", finding.cause, finding.cause != 0);
  out.Member("kind", InfoOf(finding.kind).name).Member("title", InfoOf(finding.kind).title);
  out.Member("severity", NameOf(finding.severity));
  or_null("connection", finding.connection, has_connection);
  or_null("requester", finding.requester, has_connection);
  out.Member("point", report.points[finding.point]);
  out.Member("what", kWhats[static_cast<size_t>(finding.what)]);
  out.Member("side", kSides[static_cast<size_t>(finding.side)]);
  out.Member("time_ns", finding.time_ns - report.analysis->totals().first_ns);
  out.Member("duration_ns", finding.duration_ns).Member("count", finding.count);
  out.Member("among", finding.among).Member("may_be_late", finding.may_be_late);
  out.Member("psn", finding.psn).Array("frames", FramesOf(finding));
  out.Member("rule", finding.rule).Member("text", finding.text).Close('}');
}

void WriteTotals(const CaptureTotals& totals, JsonText& out) {
  const auto of = [&](absl::string_view name, FrameKind kind) {
    out.Member(name, totals.kinds[static_cast<size_t>(kind)]);
  };
  out.Name("totals").Open('{').Member("frames", totals.frames).Member("bytes", totals.bytes);
  out.Member("duration_ns", totals.last_ns - totals.first_ns).Member("start_ns", totals.first_ns);
  of("roce", FrameKind::kRoce);
  of("other", FrameKind::kOther);
  of("pauses", FrameKind::kPause);
  of("malformed", FrameKind::kMalformed);
  of("headers_cut", FrameKind::kCut);
  of("not_segmented", FrameKind::kOffloaded);
  out.Member("cut", totals.cut).Member("mads", totals.mads);
  out.Member("icrc_right", totals.icrc_right).Member("icrc_wrong", totals.icrc_wrong).Close('}');
}

void WriteCounts(const FindingLog& log, JsonText& out) {
  out.Name("counts").Open('{');
  for (int i = 0; i < kFindingKindCount; ++i) {
    const auto kind = static_cast<FindingKind>(i);
    if (log.count(kind) != 0) out.Member(InfoOf(kind).name, log.count(kind));
  }
  out.Close('}');
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

void WriteJson(const Report& report, TextSink sink) {
  JsonText out;
  const auto take = [&] {
    sink(out.text());
    out.Clear();
  };
  // An array whose elements are written alone: all of them take ten times the memory of the
  // analysis.
  absl::string_view before = "{\"connections\":[";
  for (const std::unique_ptr<Connection>& connection : report.analysis->connections()) {
    if (connection->was_merged) continue;
    sink(std::exchange(before, ","));
    WriteConnection(report, *connection, out);
    take();
  }
  if (before != ",") sink(before);
  before = "],\"findings\":[";
  for (const Finding& finding : report.findings) {
    sink(std::exchange(before, ","));
    WriteFinding(report, finding, out);
    take();
  }
  if (before != ",") sink(before);
  sink("],");
  out.Member("format", 1).Array("files", report.files).Array("points", report.points);
  out.Array("summary", SummaryOf(report));
  WriteTotals(report.analysis->totals(), out);
  WriteCounts(report.analysis->log(), out);
  out.Member("findings_left_out", report.left_out).Close('}');
  take();
  sink("\n");
}

std::string CsvOf(const Report& report) {
  std::string text =
      "id,cause,severity,kind,connection,requester,what,side,time_s,duration_s,count,psn,frames,"
      "rule,text\n";
  for (const Finding& finding : report.findings) {
    const bool has_connection = finding.connection != Finding::kNone;
    const int64_t time_ns = finding.time_ns - report.analysis->totals().first_ns;
    std::string frames;
    for (const uint64_t frame : FramesOf(finding)) {
      absl::StrAppend(&frames, frames.empty() ? "" : " ", frame);
    }
    absl::StrAppend(&text, finding.id, ",", finding.cause, ",", NameOf(finding.severity), ",",
                    InfoOf(finding.kind).name, ",");
    if (has_connection) absl::StrAppend(&text, finding.connection, ",", AboutEnd(report, finding));
    absl::StrAppend(&text, has_connection ? "," : ",,", kWhats[static_cast<size_t>(finding.what)],
                    ",", kSides[static_cast<size_t>(finding.side)], ",", SecondsText(time_ns), ",",
                    SecondsText(finding.duration_ns), ",", finding.count, ",", finding.psn, ",",
                    frames, ",", Quoted(finding.rule), ",", Quoted(finding.text), "\n");
  }
  return text;
}

}  // namespace uroce::tools::analyze
