// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/report_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 3> kWhats = {"", "request", "response"};
constexpr std::array<const char*, 4> kSides = {"", "requester", "responder", "between"};
constexpr std::array<const char*, kPlotKindCount> kPlots = {
    "sent", "resent", "acknowledged", "response", "nak", "rnr_nak", "cnp", "missing"};

json JsonOfLatency(const LatencyHistogram& latency) {
  json histogram = json::array();
  latency.Each([&](uint64_t upper, uint64_t count) { histogram.push_back({upper, count}); });
  return {{"count", latency.count()},          {"least_ns", latency.least()},
          {"median_ns", latency.Quantile(.5)}, {"p99_ns", latency.Quantile(.99)},
          {"most_ns", latency.most()},         {"histogram", std::move(histogram)}};
}

json JsonOfMessages(const StreamAmounts& amounts) {
  json list = json::array();
  for (size_t i = 0; i < kOperationCount; ++i) {
    const MessageAmount& messages = amounts.messages[i];
    if (messages.messages == 0) continue;
    list.push_back({{"operation", std::string(NameOf(static_cast<Operation>(i)))},
                    {"messages", messages.messages},
                    {"bytes", messages.bytes},
                    {"least_bytes", messages.least_bytes},
                    {"most_bytes", messages.most_bytes},
                    {"latency", JsonOfLatency(messages.latency)}});
  }
  return list;
}

json JsonOfTimeline(const Timeline& timeline, int64_t origin_ns) {
  json columns = {{"start_ns", timeline.start_ns() - origin_ns},
                  {"interval_ns", timeline.interval_ns()},
                  {"request_bytes", json::array()},
                  {"response_bytes", json::array()},
                  {"resent_bytes", json::array()},
                  {"in_flight", json::array()},
                  {"cnps", json::array()},
                  {"marked", json::array()}};
  for (const Interval& interval : timeline.intervals()) {
    columns["request_bytes"].push_back(interval.request_bytes);
    columns["response_bytes"].push_back(interval.response_bytes);
    columns["resent_bytes"].push_back(interval.resent_bytes);
    columns["in_flight"].push_back(interval.most_in_flight);
    columns["cnps"].push_back(interval.cnps);
    columns["marked"].push_back(interval.marked);
  }
  return columns;
}

/// Each point is [time, PSNs since the first, frame].
json JsonOfPlot(const Plot& plot, int64_t origin_ns) {
  json kinds = json::object();
  for (size_t i = 0; i < kPlotKindCount; ++i) {
    const auto kind = static_cast<PlotKind>(i);
    if (plot.points(kind).empty()) continue;
    json points = json::array();
    for (const PlotPoint& point : plot.points(kind)) {
      points.push_back({point.time_ns - origin_ns, point.offset, point.frame});
    }
    kinds[kPlots[i]] = {{"every", plot.stride(kind)}, {"points", std::move(points)}};
  }
  return kinds;
}

json JsonOfStream(const RequestStream& stream, size_t end, int64_t origin_ns) {
  const StreamAmounts& amounts = stream.amounts();
  json one = {{"end", end},
              {"requests", amounts.requests},
              {"responses", amounts.responses},
              {"request_bytes", amounts.request_bytes},
              {"response_bytes", amounts.response_bytes},
              {"resent_packets", stream.recovery().resent_packets()},
              {"resent_bytes", stream.recovery().resent_bytes()},
              {"sequence_naks", amounts.sequence_naks},
              {"rnr_naks", amounts.rnr_naks},
              {"marked_requests", amounts.marked_requests},
              {"marked_responses", amounts.marked_responses},
              {"cnps", amounts.cnps},
              {"most_in_flight", amounts.most_in_flight},
              {"most_reads", amounts.most_reads},
              {"least_round_trip_ns", amounts.round_trip.least_ns},
              {"least_credit_code", amounts.least_credit_code},
              {"first_psn", stream.first_psn().value()},
              {"messages", JsonOfMessages(amounts)},
              {"timeline", JsonOfTimeline(amounts.timeline, origin_ns)}};
  if (stream.plot().is_on()) one["plot"] = JsonOfPlot(stream.plot(), origin_ns);
  return one;
}

json JsonOfEnd(const End& end) {
  json one = {{"address", AddressText(end.address)}, {"qpn", nullptr}};
  if (end.knows_qpn) one["qpn"] = end.qpn.value();
  return one;
}

json JsonOfConnection(const Report& report, const Connection& connection) {
  const int64_t origin_ns = report.analysis->totals().first_ns;
  json streams = json::array();
  uint32_t mtu = connection.mtu_bytes;
  const View* const view = connection.MainView();
  for (size_t i = 0; view != nullptr && i < 2; ++i) {
    if (!view->of[i] || view->of[i]->amounts().requests == 0) continue;
    mtu = std::max(mtu, view->of[i]->mtu_bytes());
    streams.push_back(JsonOfStream(*view->of[i], i, origin_ns));
  }
  return {{"number", connection.number},
          {"ends", {JsonOfEnd(connection.ends[0]), JsonOfEnd(connection.ends[1])}},
          {"service", std::string(NameOf(connection.service))},
          {"joined", std::string(NameOf(connection.joined))},
          {"packets", connection.packets},
          {"bytes", connection.bytes},
          {"mtu", mtu},
          {"cm_service", connection.cm_service},
          {"setup_ns", connection.setup_ns},
          {"first_ns", connection.first_ns - origin_ns},
          {"last_ns", connection.last_ns - origin_ns},
          {"requesters", std::move(streams)}};
}

std::vector<uint64_t> FramesOf(const Finding& finding) {
  std::vector<uint64_t> frames;
  for (const uint64_t frame : finding.frames) {
    if (frame != 0) frames.push_back(frame);
  }
  return frames;
}

json JsonOfFinding(const Report& report, const Finding& finding) {
  json one = {{"id", finding.id},
              {"cause", nullptr},
              {"kind", std::string(InfoOf(finding.kind).name)},
              {"title", std::string(InfoOf(finding.kind).title)},
              {"severity", std::string(NameOf(finding.severity))},
              {"connection", nullptr},
              {"requester", nullptr},
              {"point", report.points[finding.point]},
              {"what", kWhats[static_cast<size_t>(finding.what)]},
              {"side", kSides[static_cast<size_t>(finding.side)]},
              {"time_ns", finding.time_ns - report.analysis->totals().first_ns},
              {"duration_ns", finding.duration_ns},
              {"count", finding.count},
              {"among", finding.among},
              {"may_be_late", finding.may_be_late},
              {"psn", finding.psn},
              {"frames", FramesOf(finding)},
              {"rule", finding.rule},
              {"text", finding.text}};
  if (finding.cause != 0) one["cause"] = finding.cause;
  if (finding.connection != Finding::kNone) {
    one["connection"] = finding.connection;
    one["requester"] = finding.requester;
  }
  return one;
}

json JsonOfTotals(const CaptureTotals& totals) {
  const auto of = [&](FrameKind kind) { return totals.kinds[static_cast<size_t>(kind)]; };
  return {{"frames", totals.frames},
          {"bytes", totals.bytes},
          {"duration_ns", totals.last_ns - totals.first_ns},
          {"start_ns", totals.first_ns},
          {"roce", of(FrameKind::kRoce)},
          {"other", of(FrameKind::kOther)},
          {"pauses", of(FrameKind::kPause)},
          {"malformed", of(FrameKind::kMalformed)},
          {"headers_cut", of(FrameKind::kCut)},
          {"not_segmented", of(FrameKind::kOffloaded)},
          {"cut", totals.cut},
          {"mads", totals.mads},
          {"icrc_right", totals.icrc_right},
          {"icrc_wrong", totals.icrc_wrong}};
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

/// Names of files and interfaces need not be UTF-8.
std::string TextOf(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The arrays with one object a connection and a finding. Each is written alone: all of them take
/// ten times the memory of the analysis.
void WriteArrays(const Report& report, TextSink sink) {
  absl::string_view before = "{\"connections\":[";
  for (const std::unique_ptr<Connection>& connection : report.analysis->connections()) {
    if (connection->was_merged) continue;
    sink(std::exchange(before, ","));
    sink(TextOf(JsonOfConnection(report, *connection)));
  }
  if (before != ",") sink(before);
  before = "],\"findings\":[";
  for (const Finding& finding : report.findings) {
    sink(std::exchange(before, ","));
    sink(TextOf(JsonOfFinding(report, finding)));
  }
  if (before != ",") sink(before);
  sink("],");
}

}  // namespace

void WriteJson(const Report& report, TextSink sink) {
  json counts = json::object();
  for (int i = 0; i < kFindingKindCount; ++i) {
    const auto kind = static_cast<FindingKind>(i);
    const uint64_t count = report.analysis->log().count(kind);
    if (count != 0) counts[std::string(InfoOf(kind).name)] = count;
  }
  const json rest = {{"format", 1},
                     {"files", report.files},
                     {"points", report.points},
                     {"summary", SummaryOf(report)},
                     {"totals", JsonOfTotals(report.analysis->totals())},
                     {"counts", std::move(counts)},
                     {"findings_left_out", report.left_out}};
  WriteArrays(report, sink);
  sink(TextOf(rest).substr(1));
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
