// SPDX-License-Identifier: Apache-2.0
// The parameters of congestion control, with their ranges and their usual names, and the
// measurements that all flows of one NIC, priority and worker share (docs/protocol/congestion.md,
// sections 4, 6 and 7).
#include "pipeline/congestion/settings.h"

#include <algorithm>
#include <array>

namespace uroce::congestion {
namespace {

constexpr std::array<std::string_view, kProfiles> kNames = {"off", "dcqcn", "dcqcn-mlx", "delay"};

constexpr uint32_t kMaxRate = 1'000'000;  // Mb/s.
constexpr uint32_t kMaxTime = 1'000'000;  // us.

template <auto Member>
uint32_t& Np(Settings& settings) {
  return settings.np.*Member;
}
template <auto Member>
uint32_t& Rp(Settings& settings) {
  return settings.rp.*Member;
}
template <auto Member>
uint32_t& Delay(Settings& settings) {
  return settings.delay.*Member;
}

using N = NotificationSettings;
using R = ReactionSettings;
using D = DelaySettings;

constexpr std::string_view kNp = "roce_np", kRp = "roce_rp", kDelay = "delay";
constexpr std::array kParameters = {
    Parameter{kNp, "np_enable", Np<&N::np_enable>, 0, 255, "bit n: priority n answers marks"},
    Parameter{kNp, "min_time_between_cnps", Np<&N::min_time_between_cnps>, 0, 4095,
              "us between CNPs of one flow"},
    Parameter{kNp, "cnp_dscp", Np<&N::cnp_dscp>, 0, 63, "DSCP of CNPs"},
    Parameter{kNp, "cnp_802p_prio", Np<&N::cnp_802p_prio>, 0, 7, "VLAN priority of CNPs"},
    Parameter{kRp, "rp_enable", Rp<&R::rp_enable>, 0, 255, "bit n: priority n reacts to CNPs"},
    Parameter{kRp, "clamp_tgt_rate", Rp<&R::clamp_tgt_rate>, 0, 1, "each cut lowers the target"},
    Parameter{kRp, "clamp_tgt_rate_after_time_inc", Rp<&R::clamp_tgt_rate_after_time_inc>, 0, 1,
              "a cut after a timer event lowers the target"},
    Parameter{kRp, "rpg_time_reset", Rp<&R::rpg_time_reset>, 1, kMaxTime,
              "us between timer events"},
    Parameter{kRp, "rpg_byte_reset", Rp<&R::rpg_byte_reset>, 1, 1u << 30,
              "64 B between byte events"},
    Parameter{kRp, "rpg_threshold", Rp<&R::rpg_threshold>, 1, 31, "events of fast recovery"},
    Parameter{kRp, "rpg_max_rate", Rp<&R::rpg_max_rate>, 0, kMaxRate, "Mb/s, 0: line rate"},
    Parameter{kRp, "rpg_ai_rate", Rp<&R::rpg_ai_rate>, 0, kMaxRate,
              "Mb/s of an additive increase, 0: 40, or 1/400 of the line"},
    Parameter{kRp, "rpg_hai_rate", Rp<&R::rpg_hai_rate>, 0, kMaxRate,
              "Mb/s of a hyper increase, 0: 200, or 1/80 of the line"},
    Parameter{kRp, "rpg_gd", Rp<&R::rpg_gd>, 10, 15, "log2 of what alpha is divided by"},
    Parameter{kRp, "rpg_min_dec_fac", Rp<&R::rpg_min_dec_fac>, 0, 100,
              "% that a cut leaves at least"},
    Parameter{kRp, "rpg_min_rate", Rp<&R::rpg_min_rate>, 1, kMaxRate, "Mb/s"},
    Parameter{kRp, "rate_to_set_on_first_cnp", Rp<&R::rate_to_set_on_first_cnp>, 0, kMaxRate,
              "Mb/s, 0: leave"},
    Parameter{kRp, "dce_tcp_g", Rp<&R::dce_tcp_g>, 0, 1023, "1024 * (1 - g)"},
    Parameter{kRp, "dce_tcp_rtt", Rp<&R::dce_tcp_rtt>, 1, kMaxTime, "us between updates of alpha"},
    Parameter{kRp, "rate_reduce_monitor_period", Rp<&R::rate_reduce_monitor_period>, 0, kMaxTime,
              "us between cuts"},
    Parameter{kRp, "initial_alpha_value", Rp<&R::initial_alpha_value>, 0, 1023, "1/1024"},
    Parameter{kDelay, "base_target_delay", Delay<&D::base_target_delay>, 1, kMaxTime,
              "us of a round trip without congestion"},
    Parameter{kDelay, "path_scaling", Delay<&D::path_scaling>, 0, 400,
              "% that a round trip may exceed the shortest"},
    Parameter{kDelay, "fs_range", Delay<&D::fs_range>, 0, kMaxTime,
              "us that small windows may add"},
    Parameter{kDelay, "fs_min_cwnd", Delay<&D::fs_min_cwnd>, 1, 1'000'000, "1/1000 packet"},
    Parameter{kDelay, "fs_max_cwnd", Delay<&D::fs_max_cwnd>, 1, 100'000, "packets"},
    Parameter{kDelay, "ai", Delay<&D::ai>, 1, 1'000'000, "1/1000 packet a round trip"},
    Parameter{kDelay, "beta", Delay<&D::beta>, 1, 1000, "1/1000 of the excess"},
    Parameter{kDelay, "max_mdf", Delay<&D::max_mdf>, 1, 900, "1/1000 of the window"},
    Parameter{kDelay, "min_cwnd", Delay<&D::min_cwnd>, 4, 1'000'000, "1/1000 packet"},
    Parameter{kDelay, "initial_cwnd", Delay<&D::initial_cwnd>, 1, 1'000'000, "KB"},
};

/// The defaults of NVIDIA's NICs (docs/protocol/congestion.md, section 7).
constexpr ReactionSettings kMlx = {.rpg_time_reset = 300,
                                   .rpg_byte_reset = 32767,
                                   .rpg_threshold = 1,
                                   .rpg_ai_rate = 5,
                                   .rpg_hai_rate = 50,
                                   .dce_tcp_g = 1019,
                                   .dce_tcp_rtt = 1,
                                   .rate_reduce_monitor_period = 4};

}  // namespace

Settings DefaultsOf(Profile profile) {
  Settings settings;
  settings.profile = profile;
  if (profile != Profile::kDcqcnMlx) {
    // The paper's 40 and 200 Mb/s, and less on slow links.
    settings.rp.rpg_ai_rate = settings.rp.rpg_hai_rate = 0;
    return settings;
  }
  settings.rp = kMlx;
  settings.np.min_time_between_cnps = 4;
  return settings;
}

std::string_view NameOf(Profile profile) { return kNames[static_cast<size_t>(profile)]; }

bool ParseProfile(std::string_view name, Profile& profile) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return false;
  profile = static_cast<Profile>(found - kNames.begin());
  return true;
}

std::span<const Parameter> Parameters() { return kParameters; }

const Parameter* FindParameter(std::string_view name) {
  const auto found = std::ranges::find(kParameters, name, &Parameter::name);
  return found == kParameters.end() ? nullptr : &*found;
}

}  // namespace uroce::congestion
