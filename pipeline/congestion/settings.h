// SPDX-License-Identifier: Apache-2.0
// The parameters of congestion control, with their ranges and their usual names, and the
// measurements that all flows of one NIC, priority and worker share (docs/protocol/congestion.md,
// sections 4, 6 and 7).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pipeline/base/types.h"

namespace uroce::congestion {

// Units and constants of congestion control.

inline constexpr double kMegabit = 1e6;
/// The unit of rpg_byte_reset, in bytes.
inline constexpr uint32_t kByteUnit = 64;
/// The most timer events that one Advance applies. After a longer pause the others are skipped.
inline constexpr int kMaxEvents = 8192;

constexpr Nanos Micros(uint32_t count) { return Nanos(int64_t{count} * 1000); }

/// The bytes that a frame takes on the wire besides its own: preamble, start of frame, FCS and the
/// gap between frames.
inline constexpr uint32_t kFrameOverheadBytes = 8 + 4 + 12;

/// How senders react to congestion.
enum class Profile : uint8_t {
  kOff,       ///< To losses alone, by a window (flow.h). No CNPs are sent.
  kDcqcn,     ///< To CNPs, as the DCQCN paper defines (dcqcn.h).
  kDcqcnMlx,  ///< To CNPs, with the integer arithmetic of NVIDIA's NICs (dcqcn.h).
  kDelay,     ///< To round-trip times by a window (flow.h), and to CNPs as kDcqcn.
};
inline constexpr int kProfiles = 4;

/// The notification point: files of mlx5's directory ecn/roce_np.
struct NotificationSettings {
  uint32_t np_enable = 0xff;            ///< A bit for each priority.
  uint32_t min_time_between_cnps = 50;  ///< us, for one flow.
  uint32_t cnp_dscp = 48;
  uint32_t cnp_802p_prio = 6;  ///< Used when the path has a VLAN.
};

/// The reaction point: mlx5's directory ecn/roce_rp, in its units. Defaults: the DCQCN paper's.
struct ReactionSettings {
  uint32_t rp_enable = 0xff;                   ///< A bit for each priority.
  uint32_t clamp_tgt_rate = 0;                 ///< kDcqcnMlx.
  uint32_t clamp_tgt_rate_after_time_inc = 1;  ///< kDcqcnMlx.
  uint32_t rpg_time_reset = 55;                ///< us: the rate timer.
  uint32_t rpg_byte_reset = 156250;            ///< Units of 64 B: the byte counter, 10 MB.
  uint32_t rpg_threshold = 5;                  ///< F of the paper.
  uint32_t rpg_max_rate = 0;                   ///< Mb/s; 0: the line rate.
  uint32_t rpg_ai_rate = 40;                   ///< Mb/s; 0: 40, or line / 400.
  uint32_t rpg_hai_rate = 200;                 ///< Mb/s; 0: 200, or line / 80.
  uint32_t rpg_gd = 11;                        ///< log2 of the divisor of a cut; kDcqcnMlx.
  uint32_t rpg_min_dec_fac = 50;             ///< The least percentage that a cut leaves; kDcqcnMlx.
  uint32_t rpg_min_rate = 1;                 ///< Mb/s.
  uint32_t rate_to_set_on_first_cnp = 0;     ///< Mb/s; 0: not set.
  uint32_t dce_tcp_g = 1020;                 ///< 1024 * (1 - g): g = 1/256.
  uint32_t dce_tcp_rtt = 55;                 ///< us: the alpha timer.
  uint32_t rate_reduce_monitor_period = 50;  ///< us: at most one cut in this time.
  uint32_t initial_alpha_value = 1023;       ///< kDcqcnMlx; the paper's alpha begins at 1.
};

/// Parameters of kDelay. Names are those of the Swift paper (SIGCOMM 2020).
struct DelaySettings {
  uint32_t base_target_delay = 100;  ///< us: a round trip without congestion.
  uint32_t path_scaling = 25;        ///< Percent that a round trip may exceed the path's shortest.
  uint32_t fs_range = 100;           ///< us: the most that small windows add to the target.
  uint32_t fs_min_cwnd = 100;        ///< 1/1000 packet: the target is highest at this window.
  uint32_t fs_max_cwnd = 100;        ///< Packets: nothing is added from this window on.
  uint32_t ai = 500;                 ///< 1/1000 packet in a round trip.
  uint32_t beta = 800;               ///< 1/1000: the weight of the excess in a decrease.
  uint32_t max_mdf = 500;      ///< 1/1000: the largest decrease of a round trip, and of a loss.
  uint32_t min_cwnd = 50;      ///< 1/1000 packet.
  uint32_t initial_cwnd = 32;  ///< KB.
};

struct Settings {
  Profile profile = Profile::kOff;
  NotificationSettings np;
  ReactionSettings rp;
  DelaySettings delay;
};

/// The profile with the defaults of its parameters.
Settings DefaultsOf(Profile profile);

/// "off", "dcqcn", "dcqcn-mlx", "delay".
std::string_view NameOf(Profile profile);
/// Returns false when there is no such profile.
[[nodiscard]] bool ParseProfile(std::string_view name, Profile& profile);

/// One parameter: its name, the accessor of its value, and its range.
struct Parameter {
  std::string_view directory;  ///< Below ecn/ in sysfs: "roce_np", "roce_rp"; of kDelay "delay".
  std::string_view name;
  uint32_t& (*of)(Settings& settings);
  uint32_t least;
  uint32_t most;
  std::string_view meaning;  ///< Its description, with the unit.
};
std::span<const Parameter> Parameters();
/// Null when there is no such parameter.
const Parameter* FindParameter(std::string_view name);

/// The priority of a traffic class without other configuration (docs/protocol/congestion.md,
/// section 2): DSCP >> 3.
constexpr uint32_t PriorityOf(uint8_t traffic_class) { return traffic_class >> 5; }
inline constexpr uint32_t kPriorities = 8;
/// Whether the bit of `priority` is set, as in np_enable and rp_enable.
constexpr bool IsEnabled(uint32_t mask, uint32_t priority) { return (mask >> priority & 1) != 0; }

/// The settings and measurements that all flows of one NIC, priority and worker share.
/// Owned by the shell, and outlives the flows. One thread uses it. `settings` change only while
/// that thread does nothing else.
struct Environment {
  Settings settings;
  /// The priority of the flows' packets, 0 to 7 (PriorityOf).
  uint32_t priority = 0;
  /// The line rate of the port, in bits per second.
  uint64_t line_bps = 100'000'000'000;
  /// The total time in which the shell's thread was ready but not running. Round trips exclude it.
  Nanos stalled{};
  /// How far the time of an emulated network is behind the thread's clock: see drivers::Port::Lag.
  /// Round trips are measured by the network's time.
  Nanos lag{};
  /// How long packets that arrived since the thread's last turn may have waited for it; 0 where
  /// that is the time of a turn. Peers that agree to it are told (pipeline/wire/packet.h).
  Nanos host_delay{};

  bool is_on() const { return settings.profile != Profile::kOff; }
  /// Whether marks on packets of this priority are answered.
  bool notifies() const { return is_on() && IsEnabled(settings.np.np_enable, priority); }
  /// Whether flows of this priority react: to CNPs, losses, and round trips if the profile is
  /// kDelay. Their packets say ECT(0).
  bool reacts() const { return is_on() && IsEnabled(settings.rp.rp_enable, priority); }
};

}  // namespace uroce::congestion
