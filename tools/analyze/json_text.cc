// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace uroce::tools::analyze {

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

}  // namespace uroce::tools::analyze
