// SPDX-License-Identifier: Apache-2.0
#include "tools/views/rates.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tools/views/dump_view.h"
#include "tools/views/text_table.h"

namespace uroce::tools {
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

}  // namespace uroce::tools
