// SPDX-License-Identifier: Apache-2.0
// A setting before its value is checked. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {

/// A setting as it was written, in a flag or in the file. The keys port, wire and switch use
/// `fields` instead of `value`.
struct Setting {
  std::string origin;  ///< "--workers", "uroced.toml: workers": begins error messages.
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> fields;
};

/// Splits "name=uroce0,ip=..." at ',', beside which blanks and line breaks are allowed, and each
/// part at its first '='.
absl::StatusOr<Setting> SplitFields(std::string origin, std::string key, const std::string& value);

/// An error of `setting`: its origin, then `what`.
absl::Status Complain(const Setting& setting, absl::string_view what);

/// Errors: two of the setting's fields have the same key.
absl::Status CheckKeysDiffer(const Setting& setting);

}  // namespace uroce::nic
