// SPDX-License-Identifier: Apache-2.0
// Reads the daemon's JSON dumps as objects and cells. Tool and daemon may be of different versions:
// unknown members are passed on, and missing ones are left out. Who looks into a Json includes
// nlohmann/json.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

// ---- What is selected ----

/// What a listing shows; objects without such a member are left out.
struct Selection {
  std::string device;  ///< "": of all.
  std::optional<uint32_t> pid;
  std::optional<uint32_t> qpn;
};

/// Takes "device=uroce0", "pid=17", or "qpn=0x11", in decimal too.
absl::Status AddFilter(const std::string& text, Selection& selection);

/// The names of the devices, or of the switches, in the text of their dump. Errors: as of
/// ParseDump.
absl::StatusOr<std::vector<std::string>> DevicesIn(const std::string& dump);

/// Whether `uroce monitor` shows the event of a line: one that is selected, or the news that some
/// were lost.
bool IsEventShown(const std::string& line, const Selection& selection);

// ---- Objects ----

using Json = nlohmann::ordered_json;

/// Errors: kDataLoss when `text` is not JSON.
absl::StatusOr<Json> ParseDump(const std::string& text);

/// The objects of a dump's list that are selected.
std::vector<Json> SelectObjects(const Json& dump, const Selection& selection);
bool IsSelected(const Json& object, const Selection& selection);

/// The device that an object is, or that it belongs to.
std::string DeviceOf(const Json& object);

/// The number `name` of a part of a dump; 0 where there is none, as a daemon of another release may
/// not tell it.
uint64_t NumberOf(const Json& object, const char* name);

bool IsListOfObjects(const Json& value);

// ---- Cells ----

/// The cells of a JSON object; nested objects are flattened: {"a": {"b": 1}} has the cell "a.b".
using Cells = std::vector<std::pair<std::string, Json>>;

/// All members except lists of objects and members that are too long for a cell.
Cells CellsOf(const Json& object);

/// A value as a cell of a table.
std::string CellText(const Json& value);

/// "1 program", "2 programs".
std::string Counted(size_t count, const char* noun);

}  // namespace uroce::tools
