// SPDX-License-Identifier: Apache-2.0
// Reads the daemon's JSON dumps as objects and cells. Tool and daemon may be of different versions:
// unknown members are passed on, and missing ones are left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

using Json = nlohmann::ordered_json;
/// The cells of a JSON object; nested objects are flattened: {"a": {"b": 1}} has the cell "a.b".
using Cells = std::vector<std::pair<std::string, Json>>;

/// Errors: kDataLoss when `text` is not JSON.
absl::StatusOr<Json> ParseDump(const std::string& text);

/// The objects of a dump that belong to `device` ("": all).
std::vector<Json> SelectObjects(const Json& dump, const std::string& device);

/// The device that an object is, or that it belongs to.
std::string DeviceOf(const Json& object);

/// All members except lists of objects and members that are too long for a cell.
Cells CellsOf(const Json& object);

bool IsListOfObjects(const Json& value);

/// A value as a cell of a table.
std::string CellText(const Json& value);

}  // namespace uroce::tools
