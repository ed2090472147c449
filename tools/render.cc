// SPDX-License-Identifier: Apache-2.0
#include "tools/render.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/text_table.h"

namespace uroce::tools {
namespace {

using Json = nlohmann::ordered_json;
/// A JSON object with nested ones folded in: {"a": {"b": 1}} has the cell "a.b".
using Cells = std::vector<std::pair<std::string, Json>>;

std::string CellText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(CellText(part));
  return absl::StrJoin(parts, ",");
}

bool IsListOfObjects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

/// Members of a dump's objects that are too long for a cell; --json has them.
bool IsDetail(const std::string& key) { return key == "segments"; }

void Flatten(const Json& object, const std::string& prefix, Cells& cells) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      Flatten(value, prefix + key + ".", cells);
    } else if (!IsListOfObjects(value) && !IsDetail(key)) {
      cells.emplace_back(prefix + key, value);
    }
  }
}

/// The list of objects in a dump: the dump itself, or its first member that is one.
const Json* FindList(const Json& dump) {
  if (dump.is_array()) return &dump;
  for (const auto& [key, value] : dump.items()) {
    if (value.is_array()) return &value;
  }
  return nullptr;
}

std::string DeviceOf(const Json& object) {
  for (const char* key : {"device", "name"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

std::vector<Json> Select(const Json& dump, const std::string& device) {
  std::vector<Json> selected;
  const Json* list = FindList(dump);
  if (list == nullptr) return selected;
  for (const Json& object : *list) {
    if (!object.is_object()) continue;
    if (device.empty() || DeviceOf(object) == device) selected.push_back(object);
  }
  return selected;
}

std::string RenderObjects(const std::vector<Json>& objects) {
  std::vector<std::string> columns;
  std::vector<Cells> rows;
  for (const Json& object : objects) {
    Flatten(object, "", rows.emplace_back());
    for (const auto& [name, value] : rows.back()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  TextTable table(columns);
  for (const Cells& row : rows) {
    std::vector<std::string> texts(columns.size());
    for (const auto& [name, value] : row) {
      const auto column = std::find(columns.begin(), columns.end(), name) - columns.begin();
      texts[static_cast<size_t>(column)] = CellText(value);
    }
    table.AddRow(std::move(texts));
  }
  return table.ToString();
}

/// Each device with its lists (GIDs) below it.
std::string RenderDevices(const std::vector<Json>& devices) {
  std::string text = RenderObjects(devices);
  for (const Json& device : devices) {
    for (const auto& [key, value] : device.items()) {
      if (!IsListOfObjects(value)) continue;
      absl::StrAppend(&text, "\n", DeviceOf(device), " ", key, "\n",
                      RenderObjects(std::vector<Json>(value.begin(), value.end())));
    }
  }
  return text;
}

bool IsZero(const Json& value) { return value.is_number() && value == 0; }

/// Counters lie below a member of their own, whose name says nothing to people.
std::string CounterName(const std::string& name) {
  return std::string(absl::StripPrefix(name, "counters."));
}

/// One counter a line, one device a column.
std::string RenderCounters(const std::vector<Json>& devices, bool all) {
  std::vector<std::string> header = {"counter"};
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> lines;
  for (const Json& device : devices) {
    header.push_back(DeviceOf(device));
    Cells cells;
    Flatten(device, "", cells);
    for (const auto& [name, value] : cells) {
      if (!value.is_number()) continue;
      if (!lines.contains(name)) order.push_back(name);
      std::vector<std::string>& line = lines[name];
      line.resize(header.size() - 1);
      line.back() = IsZero(value) && !all ? "" : CellText(value);
    }
  }
  TextTable table(header);
  for (const std::string& name : order) {
    std::vector<std::string> line = lines[name];
    const bool silent = std::all_of(line.begin(), line.end(), [](auto& c) { return c.empty(); });
    if (silent) continue;
    for (std::string& cell : line) cell = cell.empty() ? "0" : cell;
    line.insert(line.begin(), CounterName(name));
    table.AddRow(std::move(line));
  }
  return table.ToString();
}

absl::StatusOr<Json> Parse(const std::string& json) {
  Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) return absl::DataLossError("the daemon's dump is no JSON");
  return parsed;
}

}  // namespace

absl::StatusOr<std::string> RenderDump(uroce_dump_what what, const std::string& json,
                                       const RenderOptions& options) {
  const absl::StatusOr<Json> dump = Parse(json);
  if (!dump.ok()) return dump.status();
  const std::vector<Json> objects = Select(*dump, options.device);
  switch (what) {
    case UROCE_DUMP_DEVICES:
      return RenderDevices(objects);
    case UROCE_DUMP_STAT:
      return RenderCounters(objects, options.all);
    case UROCE_DUMP_QP:
    case UROCE_DUMP_MR:
      return objects.empty() ? std::string("none\n") : RenderObjects(objects);
  }
  return absl::InternalError("unknown dump");
}

absl::StatusOr<std::string> RenderJson(const std::string& json) {
  const absl::StatusOr<Json> dump = Parse(json);
  if (!dump.ok()) return dump.status();
  return dump->dump(2) + "\n";
}

}  // namespace uroce::tools
