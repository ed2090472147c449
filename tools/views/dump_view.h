// SPDX-License-Identifier: Apache-2.0
// Reads the daemon's JSON dumps as objects and cells. Tool and daemon may be of different versions:
// unknown members are passed on, and missing ones are left out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

// Members of what the daemon answers.

/// The number `name` of a part of a dump; 0 where there is none, as a daemon of another release may
/// not tell it.
inline uint64_t NumberOf(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Reads the daemon's JSON dumps as objects and cells. Tool and daemon may be of different versions:
// unknown members are passed on, and missing ones are left out.

using Json = nlohmann::ordered_json;
/// The cells of a JSON object; nested objects are flattened: {"a": {"b": 1}} has the cell "a.b".
using Cells = std::vector<std::pair<std::string, Json>>;

/// Errors: kDataLoss when `text` is not JSON.
absl::StatusOr<Json> ParseDump(const std::string& text);

/// What a listing shows; objects without such a member are left out.
struct Selection {
  std::string device;  ///< "": of all.
  std::optional<uint32_t> pid;
  std::optional<uint32_t> qpn;
};

/// Takes "device=uroce0", "pid=17", or "qpn=0x11", in decimal too.
absl::Status AddFilter(const std::string& text, Selection& selection);

bool IsSelected(const Json& object, const Selection& selection);

/// The objects of a dump's list that are selected.
std::vector<Json> SelectObjects(const Json& dump, const Selection& selection);

/// The device that an object is, or that it belongs to.
std::string DeviceOf(const Json& object);

/// All members except lists of objects and members that are too long for a cell.
Cells CellsOf(const Json& object);

bool IsListOfObjects(const Json& value);

/// A value as a cell of a table.
std::string CellText(const Json& value);

}  // namespace uroce::tools
