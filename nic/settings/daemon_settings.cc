// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/daemon_settings.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"
#include "pipeline/base/types.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
namespace {

/// The limit per program or per user of a kind of objects.
struct KindTarget {
  Kind kind;
  uint32_t KindLimits::*limit;
};

/// A limit in bits per second.
struct RateTarget {
  uint64_t Limits::*limit;
};

/// "text" or "json".
struct LogFormatTarget {};

/// A number, or "auto".
struct WorkersTarget {};

using Target = std::variant<std::string Config::*, uint32_t Config::*, bool Config::*,
                            int Config::*, uint32_t Limits::*, uint64_t Limits::*, KindTarget,
                            RateTarget, LogFormatTarget, WorkersTarget>;

constexpr absl::string_view kAuto = "auto";

// The shim's structures have room for this number.
static_assert(kMaxWorkers == UROCE_MAX_WORKERS);

struct Row {
  SettingInfo info;
  Target target;
  uint64_t low = 0;
  uint64_t high = 0;
};

Row KindRowOfProgram(const KindRow& kind) {
  return {{absl::StrCat("max_", kind.setting), false, Section::kLimitsOfProgram,
           absl::StrCat(kind.plural, " of a program")},
          KindTarget{kind.kind, &KindLimits::of_program},
          1,
          kind.most.of_program};
}

Row KindRowOfUser(const KindRow& kind) {
  return {{absl::StrCat("max_", kind.setting, "_per_user"), false, Section::kLimitsOfUser,
           absl::StrCat(kind.plural, " of one user's programs")},
          KindTarget{kind.kind, &KindLimits::of_user},
          1,
          kind.most.of_user};
}

/// The settings except the limits of kinds.
std::vector<Row> FixedRows() {
  return {
      {{"socket", false, Section::kDaemon, "path of the control socket", true},
       &Config::socket_path},
      {{"workers", false, Section::kDaemon,
        "threads that carry packets; auto, if not given: one for 4 CPUs, 8 at most", true},
       WorkersTarget{},
       1,
       kMaxWorkers},
      {{"log_level", false, Section::kDaemon, "trace, debug, info, warning, error or off", true},
       &Config::log_level},
      {{"log_format", false, Section::kDaemon, "text, or json: one object a line"},
       LogFormatTarget{}},
      {{"metrics", false, Section::kDaemon,
        "serve OpenMetrics at 127.0.0.1:9464, or the path of a Unix socket", true},
       &Config::metrics},
      {{"wire_interfaces", true, Section::kPrivileges,
        "give the addresses of NICs on wires and switches to the kernel too"},
       &Config::wire_interfaces},
      {{"no_huge", true, Section::kPrivileges,
        "take ordinary pages even where hugepages are reserved"},
       &Config::no_huge},
      {{"share_userfaultfd", true, Section::kPrivileges,
        "pass /dev/userfaultfd to programs of every user"},
       &Config::share_userfaultfd},
      {{"copy_other_users", true, Section::kPrivileges,
        "let threads copy the memory of other users' programs, so that no worker waits for it"},
       &Config::copy_other_users},
      {{"map_other_users_files", true, Section::kPrivileges,
        "map shared memory of other users, too, who can make workers wait for it"},
       &Config::map_other_users_files},
      {{"keep_privileges", true, Section::kPrivileges,
        "keep capabilities and system calls, to debug the daemon"},
       &Config::keep_privileges},
      {{"history_dir", false, Section::kPacketHistory,
        "directory for the last packets of queue pairs that fail"},
       &Config::history_dir},
      {{"history_packets", false, Section::kPacketHistory,
        "packets kept of each queue pair, 64 if not given"},
       &Config::history_packets,
       1,
       1 << 12},  // A worker copies them in one turn.
      {{"history_files", false, Section::kPacketHistory,
        "newest files kept there, 100 if not given"},
       &Config::history_files,
       1,
       1 << 20},
      {{"ready_fd", false, Section::kDaemon, "write a byte to this fd when ready, then close it"},
       &Config::ready_fd,
       0,
       1 << 20},
      {{"max_sessions", false, Section::kLimitsOfDaemon, "programs"},
       &Limits::sessions,
       1,
       1 << 16},
      {{"max_sessions_per_user", false, Section::kLimitsOfUser, "programs of one user"},
       &Limits::sessions_per_user,
       1,
       1 << 16},
      {{"max_contexts", false, Section::kLimitsOfProgram, "contexts of a program"},
       &Limits::contexts,
       1,
       1 << 10},
      {{"max_pd", false, Section::kLimitsOfProgram, "protection domains of a program"},
       &Limits::pds,
       1,
       1 << 20},
      {{"max_channels", false, Section::kLimitsOfProgram, "completion channels of a program"},
       &Limits::channels,
       1,
       1 << 16},
      {{"max_cm_id", false, Section::kLimitsOfProgram,
        "librdmacm ids of a program, and its connections in time wait"},
       &Limits::cm_ids,
       1,
       1 << 20},
      {{"max_cm_join", false, Section::kLimitsOfProgram,
        "multicast groups of a program by librdmacm"},
       &Limits::cm_joins,
       1,
       1 << 16},
      {{"max_cqe", false, Section::kLimitsOfProgram, "entries of a completion queue"},
       &Limits::cqe,
       1,
       1 << 24},
      {{"max_qp_wr", false, Section::kLimitsOfProgram, "work requests of a queue"},
       &Limits::qp_wr,
       1,
       1 << 20},
      {{"max_kept_frames", false, Section::kLimitsOfDaemon,
        "frames behind lost ones, of a worker; 0: go-back-N"},
       &Limits::kept_frames,
       0,
       65535},
      {{"max_kept_frames_per_program", false, Section::kLimitsOfProgram,
        "frames behind lost ones, of a program"},
       &Limits::kept_frames_per_program,
       0,
       65535},
      {{"max_kept_frames_per_qp", false, Section::kLimitsOfProgram,
        "frames behind lost ones, of a queue pair, 2048 at most"},
       &Limits::kept_frames_per_qp,
       0,
       2048},
      {{"max_sockets_per_user", false, Section::kLimitsOfUser,
        "contexts, channels and rdma_cm files of one user's programs"},
       &Limits::sockets_per_user,
       1,
       1 << 20},
      {{"max_mappings_per_user", false, Section::kLimitsOfUser,
        "mappings that the daemon has of one user's memory"},
       &Limits::mappings_per_user,
       1,
       1 << 24},
      {{"max_cm_id_per_user", false, Section::kLimitsOfUser,
        "librdmacm ids, and connections in time wait, of one user's programs"},
       &Limits::cm_ids_per_user,
       1,
       1 << 24},
      {{"max_cm_join_per_user", false, Section::kLimitsOfUser,
        "multicast groups of one user's programs by librdmacm"},
       &Limits::cm_joins_per_user,
       1,
       1 << 20},
      {{"max_mcast_per_user", false, Section::kLimitsOfUser,
        "queue pairs of one user's programs in multicast groups, each time counted"},
       &Limits::attachments_per_user,
       1,
       1 << 20},
      {{"max_queue_bytes_per_user", false, Section::kLimitsOfUser,
        "bytes of queues of one user's programs"},
       &Limits::queue_bytes_per_user,
       1 << 20,
       uint64_t{1} << 46},
      {{"max_own_bytes_per_user", false, Section::kLimitsOfUser,
        "bytes of the daemon's own memory for objects and sockets of one user's programs"},
       &Limits::own_bytes_per_user,
       1 << 20,
       uint64_t{1} << 46},
      {{"max_captures", false, Section::kLimitsOfDaemon, "captures at a time"},
       &Limits::captures,
       1,
       1 << 10},
      {{"max_total_mr", false, Section::kLimitsOfDaemon,
        "memory regions and windows of all programs"},
       &Limits::total_mrs,
       1,
       1 << 24},
      {{"max_total_connections", false, Section::kLimitsOfDaemon,
        "connections that the manager keeps, ended ones too"},
       &Limits::total_connections,
       1,
       1 << 24},
      {{"max_rate_per_user", false, Section::kLimitsOfUser,
        "bits per second that one user's programs send together, such as 1G"},
       RateTarget{&Limits::rate_per_user_bps}},
      {{"max_memory_per_user", false, Section::kLimitsOfUser,
        "bytes of mapped memory of one user's programs, at most three quarters of the memory"},
       &Limits::memory_per_user,
       1 << 20,
       uint64_t{1} << 46},
      {{"max_capture_bytes", false, Section::kLimitsOfDaemon, "bytes of one capture's ring"},
       &Limits::capture_bytes,
       1 << 16,
       uint64_t{1} << 32},
  };
}

const std::vector<Row>& Rows() {
  static const auto* const rows = [] {
    auto* made = new std::vector<Row>(FixedRows());
    for (const KindRow& kind : kKinds) made->push_back(KindRowOfProgram(kind));
    for (const KindRow& kind : kKinds) made->push_back(KindRowOfUser(kind));
    return made;
  }();
  return *rows;
}

/// The value at a target as text.
struct ValueReader {
  const Config& config;
  std::string operator()(std::string Config::*text) const { return config.*text; }
  std::string operator()(bool Config::*flag) const { return config.*flag ? "true" : "false"; }
  std::string operator()(uint32_t Config::*number) const { return absl::StrCat(config.*number); }
  std::string operator()(int Config::*fd) const {
    return config.*fd < 0 ? "" : absl::StrCat(config.*fd);
  }
  std::string operator()(uint32_t Limits::*limit) const {
    return absl::StrCat(config.limits.*limit);
  }
  std::string operator()(uint64_t Limits::*limit) const {
    return absl::StrCat(config.limits.*limit);
  }
  std::string operator()(const KindTarget& target) const {
    return absl::StrCat(config.limits.kinds.of(target.kind).*target.limit);
  }
  std::string operator()(const RateTarget& target) const {
    const uint64_t bps = config.limits.*target.limit;
    return bps == 0 ? "" : absl::StrCat(bps);
  }
  std::string operator()(const LogFormatTarget&) const { return config.json_log ? "json" : "text"; }
  std::string operator()(const WorkersTarget&) const {
    return config.has_auto_workers ? std::string(kAuto) : absl::StrCat(config.workers);
  }
};

absl::Status SetNumber(const Row& row, const Setting& setting, uint64_t& out) {
  if (absl::SimpleAtoi(setting.value, &out) && out >= row.low && out <= row.high) {
    return absl::OkStatus();
  }
  return Complain(setting, absl::StrCat("\"", setting.value, "\" is not a number from ", row.low,
                                        " to ", row.high));
}

absl::Status SetWorkers(const Row& row, const Setting& setting, Config& config) {
  config.has_auto_workers = setting.value == kAuto;
  config.workers = 1;
  uint64_t number = 0;
  if (config.has_auto_workers) return absl::OkStatus();
  if (!absl::SimpleAtoi(setting.value, &number) || number < row.low || number > row.high) {
    return Complain(setting, absl::StrCat("\"", setting.value, "\" is neither ", kAuto,
                                          " nor a number from ", row.low, " to ", row.high));
  }
  config.workers = static_cast<uint32_t>(number);
  return absl::OkStatus();
}

absl::Status SetSwitch(const Setting& setting, bool& out) {
  out = setting.value == "true";
  if (out || setting.value == "false") return absl::OkStatus();
  return Complain(setting, absl::StrCat("\"", setting.value, "\" is neither true nor false"));
}

absl::Status SetText(const Setting& setting, std::string& out) {
  if (setting.value.empty()) return Complain(setting, "is empty");
  if (setting.key == "socket" && setting.value.size() > 100) {
    return Complain(setting, absl::StrCat("\"", setting.value, "\" is longer than 100 bytes"));
  }
  static constexpr absl::string_view kLevels[] = {"trace",   "debug", "info",
                                                  "warning", "error", "off"};
  if (setting.key == "log_level" &&
      std::find(std::begin(kLevels), std::end(kLevels), setting.value) == std::end(kLevels)) {
    return Complain(
        setting, absl::StrCat("\"", setting.value, "\" is none of ", absl::StrJoin(kLevels, ", ")));
  }
  if (setting.key == "metrics") {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(setting.value);
    if (!address.ok()) return Complain(setting, address.status().message());
  }
  out = setting.value;
  return absl::OkStatus();
}

absl::Status ApplyRow(const Row& row, const Setting& setting, Config& config) {
  if (const auto* text = std::get_if<std::string Config::*>(&row.target)) {
    return SetText(setting, config.*(*text));
  }
  if (const auto* flag = std::get_if<bool Config::*>(&row.target)) {
    return SetSwitch(setting, config.*(*flag));
  }
  if (std::holds_alternative<LogFormatTarget>(row.target)) {
    config.json_log = setting.value == "json";
    if (config.json_log || setting.value == "text") return absl::OkStatus();
    return Complain(setting, absl::StrCat("\"", setting.value, "\" is neither text nor json"));
  }
  if (const auto* rate = std::get_if<RateTarget>(&row.target)) {
    const absl::Status status = ParseRate(setting.value, config.limits.*(rate->limit));
    return status.ok() ? status : Complain(setting, status.message());
  }
  if (std::holds_alternative<WorkersTarget>(row.target)) return SetWorkers(row, setting, config);
  uint64_t number = 0;
  if (absl::Status status = SetNumber(row, setting, number); !status.ok()) return status;
  if (const auto* small = std::get_if<uint32_t Config::*>(&row.target)) {
    config.*(*small) = static_cast<uint32_t>(number);
  } else if (const auto* fd = std::get_if<int Config::*>(&row.target)) {
    config.*(*fd) = static_cast<int>(number);
  } else if (const auto* count = std::get_if<uint32_t Limits::*>(&row.target)) {
    config.limits.*(*count) = static_cast<uint32_t>(number);
  } else if (const auto* bytes = std::get_if<uint64_t Limits::*>(&row.target)) {
    config.limits.*(*bytes) = number;
  } else if (const auto* of_kind = std::get_if<KindTarget>(&row.target)) {
    config.limits.kinds.of(of_kind->kind).*(of_kind->limit) = static_cast<uint32_t>(number);
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ReplacementOf(absl::string_view key) {
  if (key == "flight_recorder") return "history_dir";
  if (key == "flight_packets") return "history_packets";
  if (key == "flight_files") return "history_files";
  return "";
}

const std::vector<SettingInfo>& SettingInfos() {
  static const auto* const infos = [] {
    auto* made = new std::vector<SettingInfo>;
    for (const Row& row : Rows()) made->push_back(row.info);
    return made;
  }();
  return *infos;
}

std::string ValueOf(const std::string& key, const Config& config) {
  for (const Row& row : Rows()) {
    if (row.info.key == key) return std::visit(ValueReader{config}, row.target);
  }
  return "";
}

absl::Status ApplyDaemonSetting(const Setting& setting, Config& config) {
  for (const Row& row : Rows()) {
    if (setting.key == row.info.key) return ApplyRow(row, setting, config);
  }
  return Complain(setting, "is no setting; see --help");
}

}  // namespace uroce::nic
