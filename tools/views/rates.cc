// SPDX-License-Identifier: Apache-2.0
#include "tools/views/rates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tools/views/dump_view.h"
#include "tools/views/terminal.h"

namespace uroce::tools {

// ---- Counters ----

namespace {

constexpr double kBitsPerByte = 8;

/// The counters of one device. Gauges, which go up and down, are not counters.
using Counters = std::map<std::string, uint64_t>;

bool IsGauge(const std::string& name) {
  static const std::set<std::string> gauges = {"queue_pairs", "rate_bps", "delay_ns", "queue_bytes",
                                               "peak_queue_bytes"};
  return gauges.contains(CounterName(name));
}

/// Whether a gauge is shown, with its value, when it is not 0.
bool IsShownGauge(const std::string& name) {
  return name == "queue_bytes" || name == "peak_queue_bytes";
}

Counters CountersOf(const std::vector<Json>& devices, const std::string& name) {
  Counters counters;
  for (const Json& device : devices) {
    if (DeviceOf(device) != name) continue;
    for (const auto& [key, value] : CellsOf(device)) {
      if (value.is_number_unsigned() && !IsGauge(key)) counters[key] = value.get<uint64_t>();
    }
  }
  return counters;
}

std::string RateText(const std::string& name, uint64_t change, double seconds) {
  const double rate = static_cast<double>(change) / seconds;
  return absl::EndsWith(name, "_bytes") ? ScaledText(rate * kBitsPerByte, "b/s")
                                        : ScaledText(rate, "/s");
}

/// Adds the lines of one device, in the order of its dump.
void AddDevice(const Json& device, const Counters& before, double seconds, TextTable& table) {
  for (const auto& [key, value] : CellsOf(device)) {
    if (!value.is_number_unsigned()) continue;
    if (IsShownGauge(key) && value != 0) table.AddRow({DeviceOf(device), key, CellText(value), ""});
    if (IsGauge(key)) continue;
    const auto found = before.find(key);
    const auto now = value.get<uint64_t>();
    const uint64_t then = found == before.end() || found->second > now ? 0 : found->second;
    if (now == then) continue;
    table.AddRow({DeviceOf(device), CounterName(key), absl::StrCat(now - then),
                  RateText(key, now - then, seconds)});
  }
}

/// The ports of switches: those that lead to `device` ("": all ports).
std::vector<Json> PortsOf(const Json& dump, const std::string& device) {
  std::vector<Json> ports;
  const auto found = dump.is_object() ? dump.find("switch_ports") : dump.end();
  if (found == dump.end()) return ports;
  for (const Json& port : *found) {
    if (device.empty() || port.value("leads_to", "") == device) ports.push_back(port);
  }
  return ports;
}

}  // namespace

absl::StatusOr<std::string> RenderRates(const std::string& before, const std::string& after,
                                        double seconds, const std::string& device) {
  const absl::StatusOr<Json> old_dump = ParseDump(before);
  if (!old_dump.ok()) return old_dump.status();
  const absl::StatusOr<Json> new_dump = ParseDump(after);
  if (!new_dump.ok()) return new_dump.status();
  const std::vector<Json> old_devices = SelectObjects(*old_dump, {.device = device});
  TextTable table({"device", "counter", "change", "rate"});
  for (const Json& object : SelectObjects(*new_dump, {.device = device})) {
    AddDevice(object, CountersOf(old_devices, DeviceOf(object)), seconds, table);
  }
  const std::vector<Json> old_ports = PortsOf(*old_dump, device);
  for (const Json& port : PortsOf(*new_dump, device)) {
    AddDevice(port, CountersOf(old_ports, DeviceOf(port)), seconds, table);
  }
  return absl::StrCat(absl::StrFormat("%.1f s\n", seconds),
                      table.empty() ? "nothing counted\n" : table.ToString());
}

std::string ScaledText(double value, absl::string_view unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return absl::StrFormat("%.3g %s%s", value, kPrefixes[prefix], unit);
}

std::string CounterName(const std::string& name) {
  return std::string(absl::StripPrefix(name, "counters."));
}

// ---- Programs and queue pairs ----

namespace {

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
