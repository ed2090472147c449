// SPDX-License-Identifier: Apache-2.0
#include "tools/views/top.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/views/dump_member.h"
#include "tools/views/rates.h"
#include "tools/views/text_table.h"

namespace uroce::tools {
namespace {

constexpr double kBitsPerByte = 8;

/// What has passed since the dump before.
struct Traffic {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t packets = 0;
  uint64_t resent = 0;

  uint64_t bytes() const { return sent_bytes + received_bytes; }
  void Add(const Traffic& more) {
    sent_bytes += more.sent_bytes;
    received_bytes += more.received_bytes;
    packets += more.packets;
    resent += more.resent;
  }
};

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? "" : CellText(*found);
}

Traffic TotalsOf(const Json& queue_pair) {
  const auto counters = queue_pair.find("counters");
  return {
      .sent_bytes = NumberOf(queue_pair, "sent_bytes"),
      .received_bytes = NumberOf(queue_pair, "received_bytes"),
      .packets = NumberOf(queue_pair, "sent_packets") + NumberOf(queue_pair, "received_packets"),
      .resent = counters == queue_pair.end() ? 0 : NumberOf(*counters, "retransmitted_pkts")};
}

/// A number that has become smaller is of another queue pair, and counts from 0.
Traffic Change(const Traffic& before, const Traffic& now) {
  const auto change = [](uint64_t then, uint64_t later) {
    return later < then ? later : later - then;
  };
  return {.sent_bytes = change(before.sent_bytes, now.sent_bytes),
          .received_bytes = change(before.received_bytes, now.received_bytes),
          .packets = change(before.packets, now.packets),
          .resent = change(before.resent, now.resent)};
}

struct Program {
  std::string name;
  uint64_t pid = 0;
  uint64_t queue_pairs = 0;
  Traffic traffic;
};

struct Row {
  const Json* queue_pair = nullptr;
  Traffic traffic;
};

/// The cells that programs and queue pairs share.
void AddRates(const Traffic& traffic, double seconds, std::vector<std::string>& cells) {
  const auto bits = [seconds](uint64_t bytes) {
    return ScaledText(static_cast<double>(bytes) * kBitsPerByte / seconds, "b/s");
  };
  cells.push_back(bits(traffic.sent_bytes));
  cells.push_back(bits(traffic.received_bytes));
  cells.push_back(ScaledText(static_cast<double>(traffic.packets) / seconds, "/s"));
  cells.push_back(ScaledText(static_cast<double>(traffic.resent) / seconds, "/s"));
}

std::string Counted(size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string RenderPrograms(const std::vector<Program>& programs, double seconds) {
  TextTable table({"program", "pid", "qps", "sent", "received", "packets", "sent again"});
  for (const Program& program : programs) {
    std::vector<std::string> cells = {program.name, absl::StrCat(program.pid),
                                      absl::StrCat(program.queue_pairs)};
    AddRates(program.traffic, seconds, cells);
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

std::string RenderRows(const std::vector<Row>& rows, double seconds) {
  TextTable table({"device", "pid", "qpn", "type", "state", "remote", "sent", "received", "packets",
                   "sent again"});
  for (const Row& row : rows) {
    const Json& queue_pair = *row.queue_pair;
    std::vector<std::string> cells = {DeviceOf(queue_pair),
                                      TextOf(queue_pair, "pid"),
                                      absl::StrFormat("0x%06x", NumberOf(queue_pair, "qpn")),
                                      TextOf(queue_pair, "type"),
                                      TextOf(queue_pair, "state"),
                                      TextOf(queue_pair, "remote")};
    AddRates(row.traffic, seconds, cells);
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

}  // namespace

absl::StatusOr<std::string> RenderTop(const std::string& before, const std::string& after,
                                      double seconds, const Selection& select) {
  const absl::StatusOr<Json> old_dump = ParseDump(before);
  if (!old_dump.ok()) return old_dump.status();
  const absl::StatusOr<Json> new_dump = ParseDump(after);
  if (!new_dump.ok()) return new_dump.status();
  std::map<uint64_t, Traffic> old_totals;
  for (const Json& each : SelectObjects(*old_dump, select)) {
    old_totals[NumberOf(each, "qpn")] = TotalsOf(each);
  }
  const std::vector<Json> queue_pairs = SelectObjects(*new_dump, select);
  std::vector<Row> rows;
  std::map<uint64_t, Program> by_pid;
  for (const Json& each : queue_pairs) {
    const auto old = old_totals.find(NumberOf(each, "qpn"));
    const Traffic then = old == old_totals.end() ? Traffic() : old->second;
    rows.push_back({&each, Change(then, TotalsOf(each))});
    Program& program = by_pid[NumberOf(each, "pid")];
    program.name = TextOf(each, "program");
    program.pid = NumberOf(each, "pid");
    ++program.queue_pairs;
    program.traffic.Add(rows.back().traffic);
  }
  std::vector<Program> programs;
  for (auto& [pid, program] : by_pid) programs.push_back(std::move(program));
  const auto is_busier = [](const auto& a, const auto& b) {
    return a.traffic.bytes() > b.traffic.bytes();
  };
  std::ranges::stable_sort(programs, is_busier);
  std::ranges::stable_sort(rows, is_busier);
  const std::string head =
      absl::StrCat(Counted(programs.size(), "program"), ", ", Counted(rows.size(), "queue pair"),
                   absl::StrFormat(", %.1f s\n", seconds));
  if (rows.empty()) return head;
  return absl::StrCat(head, "\n", RenderPrograms(programs, seconds), "\n",
                      RenderRows(rows, seconds));
}

}  // namespace uroce::tools
