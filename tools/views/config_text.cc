// SPDX-License-Identifier: Apache-2.0
#include "tools/views/config_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {
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

}  // namespace uroce::tools
