// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/setting.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::nic {

absl::StatusOr<Setting> SplitFields(std::string origin, std::string key, const std::string& value) {
  Setting setting{std::move(origin), std::move(key), value, {}};
  for (absl::string_view part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    std::pair<std::string, std::string> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (!absl::StrContains(part, '=')) {
      return Complain(setting, absl::StrCat("\"", part, "\" is not of the form key=value"));
    }
    setting.fields.push_back(std::move(field));
  }
  return setting;
}

absl::Status Complain(const Setting& setting, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(setting.origin, ": ", what));
}

absl::Status CheckKeysDiffer(const Setting& setting) {
  for (size_t i = 0; i < setting.fields.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (setting.fields[i].first != setting.fields[j].first) continue;
      return Complain(setting, absl::StrCat("\"", setting.fields[i].first, "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace uroce::nic
