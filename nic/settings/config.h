// SPDX-License-Identifier: Apache-2.0
// The configuration of the daemon: every setting and every limit, checked once, and which of them
// may change while the daemon runs. Pure.
//
// A setting comes from a flag or from the file. Both become `Setting`s and pass the same checks, so
// that the same text has the same meaning and the same error message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "drivers/fault/fault_config.h"
#include "nic/net/address.h"
#include "nic/net/route.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/port_kind.h"
#include "nic/settings/setting.h"
#include "nic/settings/switch_settings.h"
#include "pipeline/port/port.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The kinds of objects that are counted per program and per user.
enum class Kind : uint8_t { kSegment, kMr, kMrPart, kMw, kCq, kQp, kAh, kSrq, kXrcd };

/// The limits of a kind.
struct KindLimits {
  uint32_t of_program = 0;
  uint32_t of_user = 0;  ///< Of all programs of one user.
};

/// One row per kind: its names, its limits, and where programs read the limits.
struct KindRow {
  Kind kind;
  const char* name;     ///< In messages.
  const char* setting;  ///< The limits are set by max_SETTING and max_SETTING_per_user.
  const char* plural;   ///< In the help of these settings.
  KindLimits limits;    ///< Defaults.
  KindLimits most;      ///< The highest limits that can be set.
  uint32_t uroce_device_info::*info = nullptr;  ///< The field of the program's limit, or null.
};

inline constexpr KindRow kKinds[] = {
    {Kind::kSegment,
     "segment",
     "segments",
     "swapped memory ranges",
     {1 << 14, 1 << 14},
     {1 << 20, 1 << 24}},
    {Kind::kMr,
     "mr",
     "mr",
     "memory regions",
     {1 << 16, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_mr},
    {Kind::kMrPart,
     "mr part",
     "mr_parts",
     "parts of all memory regions",
     {1 << 17, 1 << 18},
     {1 << 24, 1 << 24}},
    {Kind::kMw,
     "mw",
     "mw",
     "memory windows",
     {1 << 16, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_mw},
    {Kind::kCq,
     "cq",
     "cq",
     "completion queues",
     {1 << 14, 1 << 15},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_cq},
    {Kind::kQp,
     "qp",
     "qp",
     "queue pairs",
     {1 << 14, 1 << 15},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_qp},
    {Kind::kAh,
     "ah",
     "ah",
     "address handles",
     {32767, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_ah},
    {Kind::kSrq,
     "srq",
     "srq",
     "shared receive queues",
     {1 << 12, 1 << 14},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_srq},
    {Kind::kXrcd, "xrcd", "xrcd", "XRC domains", {64, 512}, {1 << 16, 1 << 20}},
};
inline constexpr size_t kKindCount = std::size(kKinds);

constexpr const KindRow& RowOf(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

constexpr bool IsEachRowAtItsKind() {
  for (const KindRow& row : kKinds) {
    if (&RowOf(row.kind) != &row) return false;
  }
  return true;
}
static_assert(IsEachRowAtItsKind());

/// The limits of all kinds; initially the defaults of the table.
class LimitsOfKinds {
 public:
  constexpr LimitsOfKinds() {
    for (const KindRow& row : kKinds) of(row.kind) = row.limits;
  }
  constexpr KindLimits& of(Kind kind) { return limits_[static_cast<size_t>(kind)]; }
  constexpr const KindLimits& of(Kind kind) const { return limits_[static_cast<size_t>(kind)]; }

 private:
  std::array<KindLimits, kKindCount> limits_{};
};

/// One NIC.
struct DeviceConfig {
  std::string name;
  PortKind kind;
  std::vector<InterfaceAddress> addresses;
  std::vector<Route> routes;     ///< For a port without a kernel interface.
  bool wire_interface = false;   ///< A TAP of the name has the addresses of a NIC inside.
  bool own_host = false;         ///< The daemon, not the kernel, is the host on a kernel interface.
  std::string exception;         ///< Name of a TAP for all traffic but RoCE, or "".
  uint32_t mtu_bytes = 0;        ///< 0: the port's own.
  uint32_t queues = 0;           ///< Receive queues of the device. 0: see QueuesOf (nic/ports.h).
  bool selective_repeat = true;  ///< With peers that agree to it.
  bool always_icrc = false;      ///< Also in frames that do not leave the daemon.
  uint64_t rate_bps = 0;         ///< The most that the NIC sends, on the wire. 0: no limit.
  /// Link pause of the port; without a value it stays as the device has it.
  std::optional<drivers::FlowControl> flow_control;
  CongestionConfig congestion;
  drivers::FaultConfig fault;

  /// Null for ports of other kinds.
  const CableEnd* cable() const { return std::get_if<CableEnd>(&kind); }
  const SwitchPort* at_switch() const { return std::get_if<SwitchPort>(&kind); }
  /// Whether the daemon emulates the port.
  bool is_inside() const { return cable() != nullptr || at_switch() != nullptr; }
};

/// Limits per program, per user and for the daemon.
struct Limits {
  LimitsOfKinds kinds;
  uint32_t sessions = 1024;
  uint32_t sessions_per_user = 512;
  uint32_t contexts = 1024;  ///< This and the next limits are per program.
  uint32_t pds = 4096;
  uint32_t channels = 8192;
  uint32_t cm_ids = 16384;    ///< rdma_cm_ids, and remains of their connections.
  uint32_t cm_joins = 256;    ///< Multicast groups joined by rdma_join_multicast.
  uint32_t cqe = 1u << 22;    ///< In one CQ.
  uint32_t qp_wr = 1u << 15;  ///< In one queue of a QP.
  /// Frames kept behind gaps in the PSNs: per worker, program and queue pair
  /// (pipeline/datapath/frames/waiting_frames.h).
  uint32_t kept_frames = 6144;
  uint32_t kept_frames_per_program = 4096;
  uint32_t kept_frames_per_qp = 2048;
  uint32_t sockets_per_user = 8192;       ///< These are for all programs of one user.
  uint32_t mappings_per_user = 1u << 15;  ///< Of programs' memory, in the daemon.
  uint32_t cm_ids_per_user = 1u << 15;
  uint32_t cm_joins_per_user = 512;
  uint32_t attachments_per_user = 512;
  /// The daemon lowers the next one to a quarter, and memory_per_user to three quarters, of the
  /// memory that it can have (nic/base/memory_limit.h).
  uint64_t queue_bytes_per_user = 16ull << 30;
  /// Of the daemon's own memory, for objects and sockets. An eighth of the memory at most.
  uint64_t own_bytes_per_user = 2ull << 30;
  uint32_t captures = 16;                 ///< At a time.
  uint32_t total_mrs = 1u << 18;          ///< In the daemon, including windows.
  uint32_t total_connections = 1u << 17;  ///< Being set up, established, or in time wait.
  uint64_t rate_per_user_bps = 0;         ///< The most that a user's queue pairs send. 0: no limit.
  uint64_t memory_per_user = 1ull << 46;  ///< Bytes of registered memory that the daemon maps.
  uint64_t capture_bytes = 256ull << 20;  ///< Size of the ring of one capture.
};

/// A setting port, wire or switch, and the NICs that it makes.
struct NicSetting {
  Setting setting;
  std::vector<std::string> names;
};

struct Config {
  std::vector<DeviceConfig> devices;
  std::vector<NicSetting> nics;  ///< Where `devices` come from.
  std::vector<SwitchSettings> switches;
  std::string socket_path;
  uint32_t workers = 1;
  bool has_auto_workers = true;  ///< The daemon chooses `workers` when it starts.
  uint32_t usable_cpus = 0;      ///< The daemon has chosen by these and by the memory.
  uint64_t usable_memory_bytes = 0;
  std::string log_level = "info";
  bool json_log = false;
  std::string metrics;  ///< Where metrics are served (nic/settings/setting.h), or "".
  bool no_huge = false;
  bool wire_interfaces =
      false;                ///< The kernel has the addresses of NICs on wires and switches too.
  std::string history_dir;  ///< Directory for packet histories of failed queue pairs, or "".
  uint32_t history_packets = 64;  ///< Packets kept for each queue pair.
  uint32_t history_files = 100;   ///< Files kept in the directory.
  bool share_userfaultfd = false;
  bool copy_other_users = false;  ///< Workers access memory of root and the daemon's user alone.
  bool map_other_users_files = false;  ///< Also those whose pages their users can free.
  bool keep_privileges = false;        ///< See nic/privileges.h.
  int ready_fd = -1;
  std::string limit_profile = "shared";  ///< Of nic/settings/limit_profiles.h.
  Limits limits;
};

/// "4 workers: auto, 16 usable CPUs", or "" where a setting has the number.
std::string WorkersChosen(const Config& config);

/// Applies settings in order: a later one replaces an earlier one; port, wire and switch add NICs
/// and switches; fault names a device. Without port, wire and switch there are two NICs on an
/// in-process wire. limits, a profile, is applied before single limits. `default_socket` is used
/// when no setting names the socket. Errors: one line that names the setting, the value and what
/// would be right. The keys of one NIC of a wire or switch have its name before them:
/// "uroce1.rate", "uroce1.cc".
absl::StatusOr<Config> MakeConfig(const std::vector<Setting>& settings,
                                  const std::string& default_socket);

/// Adds the NICs of a setting port or wire. Errors: as MakeConfig; `config` is as before then.
absl::Status AddNics(const Setting& setting, Config& config);

/// Applies settings of the daemon as a whole (nic/settings/daemon_settings.h) to `config`, all or
/// none. Errors: as MakeConfig.
absl::Status ChangeConfig(const std::vector<Setting>& settings, Config& config);

/// The default wire, in the syntax of --wire.
inline constexpr char kDefaultWire[] =
    "uroce0=10.0.0.1/24+fd00::1/64,uroce1=10.0.0.2/24+fd00::2/64";

// ---- which settings may change while the daemon runs ----

/// Checks that `next` differs from `now`, with which the daemon runs, only in what may change: the
/// log level, limits that are no sizes of tables, and rate, congestion control and faults of NICs.
/// Errors: FailedPrecondition, one line that names the key of the first other difference.
absl::Status CheckChange(const Config& now, const Config& next);

/// The keys of such differences: "log_level", "limits.max_qp", "uroce0.rate".
std::vector<std::string> ChangedKeys(const Config& now, const Config& next);

/// The NIC of this name, or null.
const DeviceConfig* FindNic(const Config& config, const std::string& name);

}  // namespace uroce::nic
