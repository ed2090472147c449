// SPDX-License-Identifier: Apache-2.0
// Profiles: a value for each limit, by the kind of machine that the daemon runs on. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"

namespace uroce::nic {

/// The key of the flag; in the file it is kProfileKey of the table [limits].
inline constexpr char kLimitsKey[] = "limits";
inline constexpr char kProfileKey[] = "profile";

struct LimitProfile {
  const char* name;
  const char* help;
  /// Limits that differ from the default profile, as they are written.
  std::vector<std::pair<const char*, const char*>> limits;
};

/// The first one is the default.
const std::vector<LimitProfile>& LimitProfiles();

/// The help of --limits: a line for each profile.
std::string LimitProfilesHelp();

/// Gives each limit of `config` the value that it has in the profile. Errors: there is no such
/// profile; one line that names all of them.
absl::Status ApplyLimitProfile(const Setting& setting, Config& config);

}  // namespace uroce::nic
