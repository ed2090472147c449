// SPDX-License-Identifier: Apache-2.0
// The table of the settings of the daemon as a whole: each key with its help, its place in the
// configuration and its range. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"

namespace uroce::nic {

/// The section of --help-all that has a setting. All from kLimitsOfProgram on are limits.
enum class Section : uint8_t {
  kDaemon,
  kPacketHistory,
  kPrivileges,
  kLimitsOfProgram,
  kLimitsOfUser,
  kLimitsOfDaemon,
};

/// Names and help texts of all settings but port, wire, switch, fault and limits, for the flags
/// and --help-all.
struct SettingInfo {
  std::string key;
  bool is_switch;  ///< A flag without a value.
  Section section;
  std::string help;
  bool is_common = false;  ///< --help has it too.

  bool is_limit() const { return section >= Section::kLimitsOfProgram; }
};
const std::vector<SettingInfo>& SettingInfos();
/// The key that replaces `key`, one of an earlier version; "" where none does. Programs take both,
/// and say on stderr which one to write.
absl::string_view ReplacementOf(absl::string_view key);
/// The value of such a setting in `config`, as it is written; "" for text that was not given, a fd
/// or a rate that there is none of.
std::string ValueOf(const std::string& key, const Config& config);
/// Applies one such setting to `config`. Errors: as MakeConfig.
absl::Status ApplyDaemonSetting(const Setting& setting, Config& config);

}  // namespace uroce::nic
