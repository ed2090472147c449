// SPDX-License-Identifier: Apache-2.0
#include "tools/views/listing.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/views/dump_view.h"
#include "tools/views/rates.h"
#include "tools/views/terminal.h"

namespace uroce::tools {

// ---- Listings and filters ----

namespace {

constexpr Listing kListings[] = {
    {UROCE_DUMP_DEVICES, "devices", "uroce-devices", 1, false},
    {UROCE_DUMP_STAT, "stat", "uroce-stat", 1, false},
    {UROCE_DUMP_QP, "qp", "uroce-qp", 1, true},
    {UROCE_DUMP_MR, "mr", "uroce-mr", 1, true},
    {UROCE_DUMP_CM, "cm", "uroce-cm", 1, true},
    {UROCE_DUMP_SRQ, "srq", "uroce-srq", 1, true},
    {UROCE_DUMP_PEERS, "peers", "uroce-peers", 1, false},
    {UROCE_DUMP_SWITCH, "switch", "uroce-switch", 1, false},
    {UROCE_DUMP_CC, "cc", "uroce-cc", 1, true},
    {UROCE_DUMP_CC_SETTINGS, "cc parameters", "uroce-cc-parameters", 1, false},
    {UROCE_DUMP_CQ, "cq", "uroce-cq", 1, true},
    {UROCE_DUMP_PD, "pd", "uroce-pd", 1, true},
    {UROCE_DUMP_CTX, "ctx", "uroce-ctx", 1, true},
    {UROCE_DUMP_CONFIG, "config", "uroce-config", 1, false},
};

/// Members of a queue pair that name the objects it uses, and the member that they name.
struct Use {
  uroce_dump_what what;
  const char* member;
  std::array<const char*, 2> of_queue_pair;
};
constexpr Use kUses[] = {
    {UROCE_DUMP_CQ, "handle", {"send_cq", "receive_cq"}},
    {UROCE_DUMP_SRQ, "handle", {"srq", "srq"}},
    {UROCE_DUMP_CTX, "handle", {"ctx", "ctx"}},
    {UROCE_DUMP_PD, "pd", {"pd", "pd"}},
    {UROCE_DUMP_MR, "pd", {"pd", "pd"}},
};

const Use* FindUse(uroce_dump_what what) {
  for (const Use& use : kUses) {
    if (use.what == what) return &use;
  }
  return nullptr;
}

bool IsSame(const Json& left, const char* of_left, const Json& right, const char* of_right) {
  const auto in_left = left.find(of_left);
  const auto in_right = right.find(of_right);
  return in_left != left.end() && in_right != right.end() && *in_left == *in_right;
}

bool Uses(const Json& queue_pair, const Use& use, const Json& object) {
  if (!object.is_object() || !IsSame(queue_pair, "session", object, "session")) return false;
  for (const char* member : use.of_queue_pair) {
    if (IsSame(queue_pair, member, object, use.member)) return true;
  }
  return false;
}

}  // namespace

const Listing& ListingOf(uroce_dump_what what) {
  for (const Listing& listing : kListings) {
    if (listing.what == what) return listing;
  }
  assert(false);
  return kListings[0];
}

std::string FiltersText(uroce_dump_what what) {
  if (!ListingOf(what).has_pid) return "Only device=NAME";
  return FindUse(what) == nullptr
             ? "Only device=NAME, pid=NUMBER, qpn=NUMBER"
             : "Only device=NAME, pid=NUMBER, qpn=NUMBER (what this queue pair uses)";
}

absl::Status CheckFilters(uroce_dump_what what, const Selection& select) {
  const Listing& listing = ListingOf(what);
  if (listing.has_pid || (!select.pid && !select.qpn)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(listing.command, ": ", select.pid ? "pid" : "qpn",
                                                 "= selects nothing here, device= does"));
}

bool IsUsedByQueuePairs(uroce_dump_what what) { return FindUse(what) != nullptr; }

absl::StatusOr<std::string> OnlyUsedBy(uint32_t qpn, const std::string& queue_pairs,
                                       uroce_dump_what what, const std::string& json) {
  const absl::StatusOr<Json> users = ParseDump(queue_pairs);
  if (!users.ok()) return users.status();
  absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  const std::vector<Json> user = SelectObjects(*users, {.qpn = qpn});
  const Use* const use = FindUse(what);
  for (auto& [name, value] : dump->items()) {
    if (!IsListOfObjects(value)) continue;
    Json kept = Json::array();
    for (Json& object : value) {
      if (user.empty() || use == nullptr || !Uses(user.front(), *use, object)) continue;
      object["qpn"] = qpn;
      kept.push_back(std::move(object));
    }
    value = std::move(kept);
  }
  return dump->dump();
}

// ---- The settings of the daemon, as TOML ----

namespace {

// Strings, numbers, truth and lists of strings are written alike in JSON and TOML.
std::string Value(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string Key(const std::string& key) {
  const bool is_bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  });
  return is_bare ? key : Value(key);
}

void AppendLines(const Json& table, std::string& text) {
  for (const auto& [key, value] : table.items()) {
    absl::StrAppend(&text, Key(key), " = ", Value(value), "\n");
  }
}

}  // namespace

absl::StatusOr<std::string> RenderConfig(const std::string& json) {
  const absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  Json settings = Json::object();
  std::string tables;
  for (const auto& [key, value] : dump->items()) {
    if (value.is_object()) {
      absl::StrAppend(&tables, "\n[", Key(key), "]\n");
      AppendLines(value, tables);
    } else if (value.is_array() && !value.empty() && value.front().is_object()) {
      for (const Json& table : value) {
        absl::StrAppend(&tables, "\n[[", Key(key), "]]\n");
        AppendLines(table, tables);
      }
    } else {
      settings[key] = value;
    }
  }
  std::string text;
  AppendLines(settings, text);
  return text + tables;
}

// ---- Tables and JSON ----

namespace {

/// QPNs are shown as perftest and tshark show them.
std::string CellOf(const std::string& name, const Json& value) {
  const bool is_qpn = (name == "qpn" || absl::EndsWith(name, "_qpn")) && value.is_number_unsigned();
  return is_qpn ? absl::StrFormat("0x%06x", value.get<uint32_t>()) : CellText(value);
}

/// One row for each object; a column that would be empty is left out.
std::string RenderObjects(const std::vector<Json>& objects) {
  std::vector<std::string> columns;
  std::vector<Cells> rows;
  for (const Json& object : objects) {
    rows.push_back(CellsOf(object));
    for (const auto& [name, value] : rows.back()) {
      if (CellText(value).empty()) continue;
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  TextTable table(columns);
  for (const Cells& row : rows) {
    std::vector<std::string> texts(columns.size());
    for (const auto& [name, value] : row) {
      const auto column = std::find(columns.begin(), columns.end(), name);
      if (column == columns.end()) continue;
      texts[static_cast<size_t>(column - columns.begin())] = CellOf(name, value);
    }
    table.AddRow(std::move(texts));
  }
  return table.ToString();
}

/// The device with its speed in words instead of a number.
Json WithSpeedInWords(const Json& device) {
  Json worded = Json::object();
  for (const auto& [key, value] : device.items()) {
    if ((key == "rate_bps" || key == "target_bps" || key == "limit_bps") && value.is_number()) {
      worded[key.substr(0, key.size() - strlen("_bps"))] = ScaledText(value.get<double>(), "b/s");
    } else if (key == "speed_bps" && value.is_number()) {
      worded["speed"] = value == 0 ? "" : ScaledText(value.get<double>(), "b/s");
    } else {
      worded[key] = value;
    }
  }
  return worded;
}

/// Each device with its lists (GIDs) below it.
std::string RenderDevices(const std::vector<Json>& devices) {
  std::vector<Json> worded;
  for (const Json& device : devices) worded.push_back(WithSpeedInWords(device));
  std::string text = RenderObjects(worded);
  for (const Json& device : devices) {
    for (const auto& [key, value] : device.items()) {
      if (!IsListOfObjects(value)) continue;
      absl::StrAppend(&text, "\n", DeviceOf(device), " ", key, "\n",
                      RenderObjects(std::vector<Json>(value.begin(), value.end())));
    }
  }
  return text;
}

Json MemberOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

/// Each switch, and below the switches their ports.
std::string RenderSwitches(const Json& dump, const std::vector<Json>& switches) {
  std::vector<Json> ports;
  const Json all = MemberOf(dump, "ports");
  for (const Json& port : all) ports.push_back(WithSpeedInWords(port));
  return absl::StrCat(RenderObjects(switches), "\n", RenderObjects(ports));
}

/// Each region, and below the regions the parts of those that the daemon does not map as a whole.
std::string RenderRegions(const std::vector<Json>& regions) {
  std::string text = RenderObjects(regions);
  for (const Json& region : regions) {
    const Json parts = MemberOf(region, "segments");
    const std::string mode = CellText(MemberOf(region, "mode"));
    if (!IsListOfObjects(parts) || (mode != "mixed" && mode != "copied")) continue;
    absl::StrAppend(&text, "\nkey ", CellText(MemberOf(region, "key")), "\n",
                    RenderObjects(std::vector<Json>(parts.begin(), parts.end())));
  }
  return text;
}

/// How the daemon has chosen the number of workers, if it has, and one line for each worker.
std::string RenderWorkers(const Json& dump) {
  const Json workers = MemberOf(dump, "workers");
  const Json chosen = MemberOf(dump, "workers_chosen");
  const std::string head = chosen.is_string() ? CellText(chosen) + "\n\n" : "";
  return head + RenderObjects(std::vector<Json>(workers.begin(), workers.end()));
}

/// Rates in words.
std::string RenderFlows(const std::vector<Json>& flows) {
  std::vector<Json> worded;
  for (const Json& flow : flows) worded.push_back(WithSpeedInWords(flow));
  return RenderObjects(worded);
}

/// One parameter a line, one device a column.
std::string RenderParameters(const std::vector<Json>& devices) {
  std::vector<std::string> header = {"parameter"};
  for (const Json& device : devices) header.push_back(DeviceOf(device));
  TextTable table(header);
  if (devices.empty()) return table.ToString();
  for (const auto& [name, value] : devices.front().items()) {
    if (name == "device") continue;
    std::vector<std::string> line = {name};
    for (const Json& device : devices) line.push_back(CellText(MemberOf(device, name.c_str())));
    table.AddRow(std::move(line));
  }
  return table.ToString();
}

/// What a person looks for; --json has the rest.
std::string RenderQueuePairs(const std::vector<Json>& queue_pairs) {
  static constexpr const char* kColumns[] = {"device",   "pid",        "program",        "qpn",
                                             "type",     "state",      "remote_qpn",     "remote",
                                             "path_mtu", "sent_bytes", "received_bytes", "recovery",
                                             "history"};
  std::vector<Json> brief;
  for (const Json& queue_pair : queue_pairs) {
    Json row = Json::object();
    for (const char* column : kColumns) {
      const Json value = MemberOf(queue_pair, column);
      if (!value.is_null()) row[column] = value;
    }
    const Json resent = MemberOf(MemberOf(queue_pair, "counters"), "retransmitted_pkts");
    if (!resent.is_null()) row["retransmitted"] = resent;
    brief.push_back(std::move(row));
  }
  return RenderObjects(brief);
}

bool IsZero(const Json& value) { return value.is_number() && value == 0; }

/// One line for each counter, one column for each device.
std::string RenderCounters(const std::vector<Json>& devices, bool all) {
  std::vector<std::string> header = {"counter"};
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> lines;
  for (const Json& device : devices) {
    header.push_back(DeviceOf(device));
    for (const auto& [name, value] : CellsOf(device)) {
      if (!value.is_number()) continue;
      if (!lines.contains(name)) order.push_back(name);
      std::vector<std::string>& line = lines[name];
      line.resize(header.size() - 1);
      line.back() = IsZero(value) && !all ? "" : CellText(value);
    }
  }
  TextTable table(header);
  bool any = false;
  for (const std::string& name : order) {
    std::vector<std::string> line = lines[name];
    const bool silent = std::all_of(line.begin(), line.end(), [](auto& c) { return c.empty(); });
    if (silent) continue;
    for (std::string& cell : line) cell = cell.empty() ? "0" : cell;
    line.insert(line.begin(), CounterName(name));
    table.AddRow(std::move(line));
    any = true;
  }
  return any ? table.ToString() : "nothing counted yet; --all shows all counters\n";
}

/// The counters that all devices share, under a title.
std::string RenderShared(const Json& dump, const char* member, const char* title, bool all) {
  const Json counters = dump.is_object() ? MemberOf(dump, member) : Json();
  TextTable table({title, ""});
  bool any = false;
  for (const auto& [name, value] : counters.items()) {
    if (!value.is_number() || (IsZero(value) && !all)) continue;
    table.AddRow({name, CellText(value)});
    any = true;
  }
  return any ? absl::StrCat("\n", table.ToString()) : "";
}

}  // namespace

absl::StatusOr<std::string> RenderDump(uroce_dump_what what, const std::string& json,
                                       const RenderOptions& options) {
  const absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  const std::vector<Json> objects = SelectObjects(*dump, options.select);
  switch (what) {
    case UROCE_DUMP_DEVICES:
      return RenderDevices(objects);
    case UROCE_DUMP_STAT:
      if (options.workers) {
        return RenderWorkers(*dump) + RenderShared(*dump, "control", "control thread", options.all);
      }
      return RenderCounters(objects, options.all) +
             RenderShared(*dump, "cm", "connection manager", options.all) +
             RenderShared(*dump, "peers", "capabilities of peers", options.all);
    case UROCE_DUMP_CC_SETTINGS:
      return RenderParameters(objects);
    case UROCE_DUMP_CONFIG:
      return RenderConfig(json);
    case UROCE_DUMP_CC:
      return objects.empty() ? std::string("none\n") : RenderFlows(objects);
    case UROCE_DUMP_QP:
      return objects.empty() ? std::string("none\n") : RenderQueuePairs(objects);
    case UROCE_DUMP_CM:
    case UROCE_DUMP_SRQ:
    case UROCE_DUMP_PEERS:
    case UROCE_DUMP_CQ:
    case UROCE_DUMP_PD:
    case UROCE_DUMP_CTX:
      return objects.empty() ? std::string("none\n") : RenderObjects(objects);
    case UROCE_DUMP_SWITCH:
      return objects.empty() ? std::string("none\n") : RenderSwitches(*dump, objects);
    case UROCE_DUMP_MR:
      return objects.empty() ? std::string("none\n") : RenderRegions(objects);
  }
  return absl::InternalError("unknown dump");
}

absl::StatusOr<std::string> RenderFaults(const std::string& json, const std::string& device) {
  const absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  std::vector<Json> rows, rules;
  for (const Json& object : SelectObjects(*dump, {.device = device})) {
    const std::string fault = object.value("fault", "");
    Json row = {{"device", DeviceOf(object)}, {"fault", fault.empty() ? "off" : fault}};
    for (const auto& [member, prefix] :
         {std::pair("fault_receive", "rx_"), std::pair("fault_transmit", "tx_")}) {
      const Json counters = MemberOf(object, member);
      for (const auto& [name, value] : counters.items()) row[prefix + name] = value;
    }
    rows.push_back(std::move(row));
    for (const Json& rule : MemberOf(object, "fault_rules")) {
      rules.push_back({{"device", DeviceOf(object)}});
      rules.back().update(rule);
    }
  }
  return RenderObjects(rows) + (rules.empty() ? "" : "\n" + RenderObjects(rules));
}

absl::StatusOr<std::string> FaultsOf(const std::string& json) {
  const absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  Json list = Json::array();
  for (const Json& object : SelectObjects(*dump, {})) {
    list.push_back({{"name", DeviceOf(object)}});
    for (const auto& [name, value] : object.items()) {
      if (name.starts_with("fault")) list.back()[name] = value;
    }
  }
  return Json({{"devices", list}}).dump();
}

absl::StatusOr<std::string> RenderJson(const Listing& listing, const std::string& json,
                                       const Selection& select, absl::Time time, bool is_line) {
  const absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  Json stamped = {
      {"timestamp", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone())},
      {"schema", listing.schema},
      {"schema_version", listing.version}};
  const bool selects = !select.device.empty() || select.pid || select.qpn;
  for (const auto& [name, value] : dump->items()) {
    if (!selects || !IsListOfObjects(value)) {
      stamped[name] = value;
      continue;
    }
    stamped[name] = Json::array();
    for (const Json& object : value) {
      if (IsSelected(object, select)) stamped[name].push_back(object);
    }
  }
  return stamped.dump(is_line ? -1 : 2, ' ', /*ensure_ascii=*/true,
                      Json::error_handler_t::replace) +
         "\n";
}

}  // namespace uroce::tools
