// SPDX-License-Identifier: Apache-2.0
#include "tools/views/dump_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace uroce::tools {
namespace {

/// Whether a member of a dump's object is too long for a cell, or of use to programs alone; --json
/// shows it.
bool IsDetail(const std::string& key) {
  return key == "segments" || key == "session" || key == "histograms";
}

void Flatten(const Json& object, const std::string& prefix, Cells& cells) {
  for (const auto& [key, value] : object.items()) {
    if (IsDetail(key)) continue;
    if (value.is_object()) {
      Flatten(value, prefix + key + ".", cells);
    } else if (!IsListOfObjects(value)) {
      cells.emplace_back(prefix + key, value);
    }
  }
}

/// The list of objects in a dump: the dump itself, or its first member that is a list.
const Json* FindList(const Json& dump) {
  if (dump.is_array()) return &dump;
  for (const auto& [key, value] : dump.items()) {
    if (value.is_array()) return &value;
  }
  return nullptr;
}

}  // namespace

// ---- What is selected ----

absl::Status AddFilter(const std::string& text, Selection& selection) {
  const size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (key == "device" && !value.empty()) {
    selection.device = value;
    return absl::OkStatus();
  }
  uint32_t number = 0;
  const bool is_number = absl::StartsWith(value, "0x") ? absl::SimpleHexAtoi(value, &number)
                                                       : absl::SimpleAtoi(value, &number);
  if ((key != "pid" && key != "qpn") || !is_number) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no filter: device=NAME, pid=NUMBER or qpn=NUMBER"));
  }
  (key == "pid" ? selection.pid : selection.qpn) = number;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DevicesIn(const std::string& dump) {
  const absl::StatusOr<Json> parsed = ParseDump(dump);
  if (!parsed.ok()) return parsed.status();
  std::vector<std::string> names;
  for (const Json& each : SelectObjects(*parsed, {})) names.push_back(DeviceOf(each));
  return names;
}

bool IsEventShown(const std::string& line, const Selection& selection) {
  const absl::StatusOr<Json> event = ParseDump(line);
  if (!event.ok() || !event->is_object()) return false;
  return event->value("event", "") == "lost" || IsSelected(*event, selection);
}

// ---- Objects ----

namespace {

// Json's own functions call themselves for what is inside.
constexpr size_t kDeepest = 64;

/// How deep arrays and objects are nested in a text that is JSON.
size_t DepthOf(absl::string_view text) {
  size_t depth = 0, deepest = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char at = text[i];
    if (is_string && at == '\\') {
      ++i;
    } else if (at == '"') {
      is_string = !is_string;
    } else if (!is_string && (at == '[' || at == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!is_string && (at == ']' || at == '}') && depth != 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<Json> ParseDump(const std::string& text) {
  if (DepthOf(text) > kDeepest) return absl::DataLossError("the daemon's dump is nested too deep");
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return absl::DataLossError("the daemon's dump is no JSON");
  return parsed;
}

std::vector<Json> SelectObjects(const Json& dump, const Selection& selection) {
  std::vector<Json> selected;
  const Json* list = FindList(dump);
  if (list == nullptr) return selected;
  for (const Json& object : *list) {
    if (object.is_object() && IsSelected(object, selection)) selected.push_back(object);
  }
  return selected;
}

bool IsSelected(const Json& object, const Selection& selection) {
  const auto fits = [&object](const char* key, const std::optional<uint32_t>& wanted) {
    const auto found = object.find(key);
    return !wanted || (found != object.end() && *found == *wanted);
  };
  return (selection.device.empty() || DeviceOf(object) == selection.device) &&
         fits("pid", selection.pid) && fits("qpn", selection.qpn);
}

std::string DeviceOf(const Json& object) {
  for (const char* key : {"device", "name"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

uint64_t NumberOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

bool IsListOfObjects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

// ---- Cells ----

Cells CellsOf(const Json& object) {
  Cells cells;
  Flatten(object, "", cells);
  return cells;
}

std::string CellText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(CellText(part));
  return absl::StrJoin(parts, ",");
}

std::string Counted(size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace uroce::tools
