// SPDX-License-Identifier: Apache-2.0
#include "tools/views/dump_view.h"

#include "absl/strings/str_join.h"

namespace uroce::tools {
namespace {

/// Whether a member of a dump's object is too long for a cell; --json shows it.
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

/// The list of objects in a dump: the dump itself, or its first member that is a list.
const Json* FindList(const Json& dump) {
  if (dump.is_array()) return &dump;
  for (const auto& [key, value] : dump.items()) {
    if (value.is_array()) return &value;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Json> ParseDump(const std::string& text) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return absl::DataLossError("the daemon's dump is no JSON");
  return parsed;
}

std::vector<Json> SelectObjects(const Json& dump, const std::string& device) {
  std::vector<Json> selected;
  const Json* list = FindList(dump);
  if (list == nullptr) return selected;
  for (const Json& object : *list) {
    if (!object.is_object()) continue;
    if (device.empty() || DeviceOf(object) == device) selected.push_back(object);
  }
  return selected;
}

std::string DeviceOf(const Json& object) {
  for (const char* key : {"device", "name"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

Cells CellsOf(const Json& object) {
  Cells cells;
  Flatten(object, "", cells);
  return cells;
}

bool IsListOfObjects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
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

}  // namespace uroce::tools
