// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/limit_profiles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nic/settings/daemon_settings.h"

namespace uroce::nic {
namespace {

// A program may use most of what the daemon has, and the daemon's tables are small.
LimitProfile Laptop() {
  return {"laptop",
          "one user: small tables, 1 GiB of queues",
          {{"max_sessions", "128"},
           {"max_sessions_per_user", "128"},
           {"max_qp", "2048"},
           {"max_qp_per_user", "4096"},
           {"max_cq", "2048"},
           {"max_cq_per_user", "4096"},
           {"max_srq", "512"},
           {"max_srq_per_user", "1024"},
           {"max_ah", "4096"},
           {"max_ah_per_user", "8192"},
           {"max_mr", "8192"},
           {"max_mr_per_user", "16384"},
           {"max_mr_parts", "16384"},
           {"max_mr_parts_per_user", "32768"},
           {"max_mw", "8192"},
           {"max_mw_per_user", "16384"},
           {"max_total_mr", "32768"},
           {"max_cm_id", "2048"},
           {"max_cm_id_per_user", "4096"},
           {"max_total_connections", "8192"},
           {"max_kept_frames", "2048"},
           {"max_kept_frames_per_program", "2048"},
           {"max_kept_frames_per_qp", "1024"},
           {"max_queue_bytes_per_user", "1073741824"},
           {"max_own_bytes_per_user", "268435456"},
           {"max_captures", "4"},
           {"max_capture_bytes", "67108864"}}};
}

// Adapters have 2^18 queue pairs and 2^24 regions and completion queues, for all programs together.
LimitProfile Server() {
  return {"server",
          "few services: as many queue pairs as an adapter",
          {{"max_sessions", "4096"},
           {"max_sessions_per_user", "4096"},
           {"max_qp", "131072"},
           {"max_qp_per_user", "262144"},
           {"max_cq", "131072"},
           {"max_cq_per_user", "262144"},
           {"max_srq", "32768"},
           {"max_srq_per_user", "65536"},
           {"max_xrcd", "1024"},
           {"max_xrcd_per_user", "8192"},
           {"max_ah", "262144"},
           {"max_ah_per_user", "1048576"},
           {"max_pd", "65536"},
           {"max_channels", "65536"},
           {"max_mr", "524288"},
           {"max_mr_per_user", "1048576"},
           {"max_mr_parts", "1048576"},
           {"max_mr_parts_per_user", "2097152"},
           {"max_mw", "524288"},
           {"max_mw_per_user", "1048576"},
           {"max_total_mr", "2097152"},
           {"max_cm_id", "131072"},
           {"max_cm_id_per_user", "262144"},
           {"max_total_connections", "524288"},
           {"max_cm_join", "1024"},
           {"max_cm_join_per_user", "4096"},
           {"max_mcast_per_user", "4096"},
           {"max_sockets_per_user", "65536"},
           {"max_kept_frames", "16384"},
           {"max_kept_frames_per_program", "12288"},
           {"max_queue_bytes_per_user", "68719476736"},
           {"max_own_bytes_per_user", "34359738368"}}};
}

}  // namespace

const std::vector<LimitProfile>& LimitProfiles() {
  static const auto* const profiles = new std::vector<LimitProfile>{
      {"shared", "many users, each of them with a part; the default", {}}, Laptop(), Server()};
  return *profiles;
}

std::string LimitProfilesHelp() {
  std::string help = "values of all limits; single limits, see --help-all, win over it";
  for (const LimitProfile& profile : LimitProfiles()) {
    absl::StrAppend(&help, "\n", profile.name, ": ", profile.help);
  }
  return help;
}

absl::Status ApplyLimitProfile(const Setting& setting, Config& config) {
  const auto& profiles = LimitProfiles();
  const auto chosen = std::ranges::find_if(
      profiles, [&](const LimitProfile& profile) { return setting.value == profile.name; });
  if (chosen == profiles.end()) {
    return Complain(setting,
                    absl::StrCat("\"", setting.value, "\" is none of laptop, shared and server"));
  }
  config.limits = Limits{};
  config.limit_profile = chosen->name;
  for (const auto& [key, value] : chosen->limits) {
    const absl::Status status = ApplyDaemonSetting({setting.origin, key, value, {}}, config);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace uroce::nic
