// SPDX-License-Identifier: Apache-2.0
// The daemon's JSON dumps as objects and cells. Tool and daemon may differ in age: what is not
// known is passed on, what is missing is left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

using Json = nlohmann::ordered_json;
/// A JSON object with nested ones folded in: {"a": {"b": 1}} has the cell "a.b".
using Cells = std::vector<std::pair<std::string, Json>>;

/// Errors: kDataLoss when it is no JSON.
absl::StatusOr<Json> ParseDump(const std::string& text);

/// The objects of a dump, or those of them that belong to `device` ("": all).
std::vector<Json> SelectObjects(const Json& dump, const std::string& device);

/// The device that an object is or belongs to.
std::string DeviceOf(const Json& object);

/// All members but lists of objects and those that are too long for a cell.
Cells CellsOf(const Json& object);

bool IsListOfObjects(const Json& value);

/// A value as a cell of a table.
std::string CellText(const Json& value);

}  // namespace uroce::tools
