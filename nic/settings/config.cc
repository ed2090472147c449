// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/config.h"

#include <algorithm>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nic/settings/amount.h"
#include "nic/settings/listen_address.h"
#include "nic/settings/port_congestion.h"
#include "nic/settings/port_fields.h"
#include "nic/settings/port_network.h"
#include "pipeline/base/steering.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxNameLength = 15;  // Of a device: fits the columns of all tools.
// It can stand among the device names of a wire. kRateKey cannot be told from one, and is none.
static_assert(kSelectiveRepeatKey.size() > kMaxNameLength);

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

using Target =
    std::variant<std::string Config::*, uint32_t Config::*, bool Config::*, int Config::*,
                 uint32_t Limits::*, uint64_t Limits::*, KindTarget, RateTarget, LogFormatTarget>;

// The shim's structures have room for this number.
static_assert(kMaxWorkers == UROCE_MAX_WORKERS);

struct Row {
  SettingInfo info;
  Target target;
  uint64_t low = 0;
  uint64_t high = 0;
};

Row KindRowOfProgram(const KindRow& kind) {
  return {
      {absl::StrCat("max_", kind.setting), false, true, absl::StrCat(kind.plural, " of a program")},
      KindTarget{kind.kind, &KindLimits::of_program},
      1,
      kind.most.of_program};
}

Row KindRowOfUser(const KindRow& kind) {
  return {{absl::StrCat("max_", kind.setting, "_per_user"), false, true,
           absl::StrCat(kind.plural, " of one user's programs")},
          KindTarget{kind.kind, &KindLimits::of_user},
          1,
          kind.most.of_user};
}

/// The settings except the limits of kinds.
std::vector<Row> FixedRows() {
  return {
      {{"socket", false, false, "path of the control socket"}, &Config::socket_path},
      {{"workers", false, false, "threads that carry packets, 1 if not given"},
       &Config::workers,
       1,
       kMaxWorkers},
      {{"log_level", false, false, "trace, debug, info, warning, error or off"},
       &Config::log_level},
      {{"log_format", false, false, "text, or json: one object a line"}, LogFormatTarget{}},
      {{"metrics", false, false,
        "serve OpenMetrics at 127.0.0.1:9464, or the path of a Unix socket"},
       &Config::metrics},
      {{"wire_interfaces", true, false,
        "give the addresses of NICs on wires and switches to the kernel too"},
       &Config::wire_interfaces},
      {{"no_huge", true, false, "take ordinary pages even where hugepages are reserved"},
       &Config::no_huge},
      {{"share_userfaultfd", true, false, "pass /dev/userfaultfd to programs of every user"},
       &Config::share_userfaultfd},
      {{"keep_privileges", true, false, "keep capabilities and system calls, to debug the daemon"},
       &Config::keep_privileges},
      {{"flight_recorder", false, false, "directory for the last packets of queue pairs that fail"},
       &Config::flight_recorder},
      {{"flight_packets", false, false, "packets kept of each queue pair, 64 if not given"},
       &Config::flight_packets,
       1,
       1 << 16},
      {{"flight_files", false, false, "newest files kept there, 100 if not given"},
       &Config::flight_files,
       1,
       1 << 20},
      {{"ready_fd", false, false, "write a byte to this fd when ready, then close it"},
       &Config::ready_fd,
       0,
       1 << 20},
      {{"max_sessions", false, true, "programs"}, &Limits::sessions, 1, 1 << 16},
      {{"max_sessions_per_user", false, true, "programs of one user"},
       &Limits::sessions_per_user,
       1,
       1 << 16},
      {{"max_contexts", false, true, "contexts of a program"}, &Limits::contexts, 1, 1 << 10},
      {{"max_pd", false, true, "protection domains of a program"}, &Limits::pds, 1, 1 << 20},
      {{"max_channels", false, true, "completion channels of a program"},
       &Limits::channels,
       1,
       1 << 16},
      {{"max_cm_id", false, true, "librdmacm ids of a program, and its connections in time wait"},
       &Limits::cm_ids,
       1,
       1 << 20},
      {{"max_cm_join", false, true, "multicast groups of a program by librdmacm"},
       &Limits::cm_joins,
       1,
       1 << 16},
      {{"max_cqe", false, true, "entries of a completion queue"}, &Limits::cqe, 1, 1 << 24},
      {{"max_qp_wr", false, true, "work requests of a queue"}, &Limits::qp_wr, 1, 1 << 20},
      {{"max_kept_frames", false, true, "frames behind lost ones, of a worker; 0: go-back-N"},
       &Limits::kept_frames,
       0,
       65535},
      {{"max_kept_frames_per_program", false, true, "the same of a program"},
       &Limits::kept_frames_per_program,
       0,
       65535},
      {{"max_kept_frames_per_qp", false, true, "the same of a queue pair, 2048 at most"},
       &Limits::kept_frames_per_qp,
       0,
       2048},
      {{"max_sockets_per_user", false, true,
        "contexts, channels and rdma_cm files of one user's programs"},
       &Limits::sockets_per_user,
       1,
       1 << 20},
      {{"max_mappings_per_user", false, true, "mappings that the daemon has of one user's memory"},
       &Limits::mappings_per_user,
       1,
       1 << 24},
      {{"max_cm_id_per_user", false, true,
        "librdmacm ids, and connections in time wait, of one user's programs"},
       &Limits::cm_ids_per_user,
       1,
       1 << 24},
      {{"max_cm_join_per_user", false, true,
        "multicast groups of one user's programs by librdmacm"},
       &Limits::cm_joins_per_user,
       1,
       1 << 20},
      {{"max_mcast_per_user", false, true,
        "queue pairs of one user's programs in multicast groups, each time counted"},
       &Limits::attachments_per_user,
       1,
       1 << 20},
      {{"max_queue_bytes_per_user", false, true, "bytes of queues of one user's programs"},
       &Limits::queue_bytes_per_user,
       1 << 20,
       uint64_t{1} << 46},
      {{"max_captures", false, true, "captures at a time"}, &Limits::captures, 1, 1 << 10},
      {{"max_total_mr", false, true, "memory regions and windows of all programs"},
       &Limits::total_mrs,
       1,
       1 << 24},
      {{"max_total_connections", false, true, "connections that the manager keeps, ended ones too"},
       &Limits::total_connections,
       1,
       1 << 24},
      {{"max_rate_per_user", false, true,
        "bits per second that one user's programs send together, such as 1G"},
       RateTarget{&Limits::rate_per_user_bps}},
      {{"max_memory_per_user", false, true, "bytes of mapped memory of one user's programs"},
       &Limits::memory_per_user,
       1 << 20,
       uint64_t{1} << 46},
      {{"max_capture_bytes", false, true, "bytes of one capture's ring"},
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
struct Reader {
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
};

absl::Status Complain(const Setting& setting, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(setting.origin, ": ", what));
}

absl::Status SetNumber(const Row& row, const Setting& setting, uint64_t& out) {
  if (absl::SimpleAtoi(setting.value, &out) && out >= row.low && out <= row.high) {
    return absl::OkStatus();
  }
  return Complain(setting, absl::StrCat("\"", setting.value, "\" is not a number from ", row.low,
                                        " to ", row.high));
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

DeviceConfig* FindDevice(Config& config, absl::string_view name) {
  for (DeviceConfig& device : config.devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

absl::Status CheckName(const Setting& setting, const Config& config, const std::string& name) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; };
  if (name.empty() || name.size() > kMaxNameLength ||
      !std::all_of(name.begin(), name.end(), allowed)) {
    return Complain(setting, absl::StrCat("name \"", name, "\" must be 1 to ", kMaxNameLength,
                                          " letters, digits, '_' or '-'"));
  }
  if (name == kCongestionKey || name == kIcrcKey) {
    return Complain(setting, absl::StrCat("name \"", name, "\" is the key of a wire"));
  }
  if (FindDevice(const_cast<Config&>(config), name) != nullptr) {
    return Complain(setting, absl::StrCat("name \"", name, "\" is used twice"));
  }
  if (config.devices.size() == UROCE_MAX_DEVICES) {
    return Complain(setting, absl::StrCat("more than ", UROCE_MAX_DEVICES, " devices"));
  }
  return absl::OkStatus();
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

absl::Status ApplyField(const Setting& setting, const Config& config, const std::string& key,
                        const std::string& value, DeviceConfig& device) {
  if (key == "name") {
    device.name = value;
    return CheckName(setting, config, value);
  }
  if (IsCongestionKey(key)) {
    const absl::Status status = SetCongestion(key, value, device.congestion);
    return status.ok() ? status : Complain(setting, status.message());
  }
  std::string known = "name, cc, cc.PRIORITY, cc.PARAMETER";
  for (const PortField& field : PortFields()) {
    absl::StrAppend(&known, ", ", field.key);
    if (key != field.key) continue;
    const absl::Status status = field.set(value, device);
    return status.ok() ? status : Complain(setting, status.message());
  }
  return Complain(setting, absl::StrCat("unknown key \"", key, "\"; the keys are ", known));
}

absl::Status ApplyPort(const Setting& setting, Config& config) {
  if (absl::Status status = CheckKeysDiffer(setting); !status.ok()) return status;
  DeviceConfig device;
  for (const auto& [key, value] : setting.fields) {
    if (absl::Status status = ApplyField(setting, config, key, value, device); !status.ok()) {
      return status;
    }
  }
  if (device.name.empty()) return Complain(setting, "name=... is missing, such as name=uroce0");
  if (device.dev.empty()) {
    return Complain(setting, "iface=..., udp=... or dev=... is missing, such as iface=eth0");
  }
  if (absl::Status status = CheckNetwork(device); !status.ok()) {
    return Complain(setting, absl::StrCat("name=", device.name, ": ", status.message()));
  }
  config.devices.push_back(std::move(device));
  return absl::OkStatus();
}

/// Whether the NICs of wires and switches have the key too.
bool IsNicKey(absl::string_view key) {
  return key == kSelectiveRepeatKey || key == kRateKey || IsCongestionKey(key);
}

/// Range: IsNicKey(key).
absl::Status SetNicField(const std::string& key, const std::string& value, DeviceConfig& device) {
  if (key == kSelectiveRepeatKey) return SetSelectiveRepeat(value, device);
  if (key == kRateKey) return SetRate(value, device);
  return SetCongestion(key, value, device.congestion);
}

/// Moves the fields that apply to both ends of a wire from `setting` to `device`.
absl::Status TakeCommonFields(Setting& setting, DeviceConfig& device) {
  std::vector<std::pair<std::string, std::string>> ends;
  for (auto& [key, value] : setting.fields) {
    if (key == kIcrcKey) {
      const absl::Status status = SetIcrc(value, device.always_icrc);
      if (!status.ok()) return Complain(setting, status.message());
      continue;
    }
    if (!IsNicKey(key)) {
      ends.emplace_back(std::move(key), std::move(value));
      continue;
    }
    const absl::Status status = SetNicField(key, value, device);
    if (!status.ok()) return Complain(setting, status.message());
  }
  setting.fields = std::move(ends);
  return absl::OkStatus();
}

/// Moves the fields of single NICs, such as "uroce1.rate", out of `setting`.
Setting TakeFieldsOfNics(Setting& setting) {
  Setting of_nics{setting.origin, setting.key, "", {}};
  std::erase_if(setting.fields, [&](auto& field) {
    const bool is_of_nic = absl::StrContains(field.first, '.') && !IsCongestionKey(field.first);
    if (is_of_nic) of_nics.fields.push_back(field);
    return is_of_nic;
  });
  return of_nics;
}

/// Applies the fields of single NICs to those from number `first` on.
absl::Status ApplyFieldsOfNics(const Setting& setting, size_t first, Config& config) {
  for (const auto& [key, value] : setting.fields) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(key, absl::MaxSplits('.', 1));
    const auto device =
        std::find_if(config.devices.begin() + static_cast<ptrdiff_t>(first), config.devices.end(),
                     [&](const DeviceConfig& candidate) { return candidate.name == parts.first; });
    if (device == config.devices.end() || !IsNicKey(parts.second)) {
      return Complain(setting, absl::StrCat("\"", key,
                                            "\" is no NIC of it with a key rate, cc, "
                                            "cc.PRIORITY, cc.PARAMETER or selective-repeat"));
    }
    const absl::Status status = SetNicField(parts.second, value, *device);
    if (!status.ok()) {
      return Complain(setting, absl::StrCat(parts.first, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyWire(Setting setting, Config& config) {
  if (absl::Status status = CheckKeysDiffer(setting); !status.ok()) return status;
  DeviceConfig common;
  const size_t first = config.devices.size();
  const Setting of_nics = TakeFieldsOfNics(setting);
  if (absl::Status status = TakeCommonFields(setting, common); !status.ok()) return status;
  if (setting.fields.size() != 2) {
    return Complain(setting, absl::StrCat("a wire has two ends, not ", setting.fields.size(),
                                          ", such as uroce0=10.0.0.1/24,uroce1=10.0.0.2/24"));
  }
  int wire = 0;
  for (const DeviceConfig& device : config.devices) wire = std::max(wire, device.wire + 1);
  for (const auto& [name, addresses] : setting.fields) {
    if (absl::Status status = CheckName(setting, config, name); !status.ok()) return status;
    DeviceConfig device = common;
    device.name = name;
    device.wire = wire;
    if (absl::Status status = AddAddresses(addresses, device); !status.ok()) {
      return Complain(setting, status.message());
    }
    config.devices.push_back(std::move(device));
  }
  return ApplyFieldsOfNics(of_nics, first, config);
}

/// Adds `steps` to `gid`, as a number in network order.
Gid CountedUp(Gid gid, uint32_t steps) {
  uint64_t carry = steps;
  for (size_t i = gid.bytes.size(); i > 0 && carry != 0; --i) {
    carry += gid.bytes[i - 1];
    gid.bytes[i - 1] = static_cast<uint8_t>(carry);
    carry >>= 8;
  }
  return gid;
}

/// The first name of uroce0, uroce1 ... that no device has.
std::string FreeDeviceName(Config& config) {
  for (uint32_t number = 0;; ++number) {
    std::string name = absl::StrCat("uroce", number);
    if (FindDevice(config, name) == nullptr) return name;
  }
}

/// Adds the NIC at the next port of the last switch. If the switch has no addresses of its own, the
/// NIC's address continues the sequence over all such switches.
absl::Status AddSwitchNic(const Setting& setting, uint32_t port, Config& config) {
  const SwitchSettings& own = config.switches.back();
  DeviceConfig device;
  device.name = FreeDeviceName(config);
  device.at_switch = static_cast<int>(config.switches.size()) - 1;
  device.mtu_bytes = own.mtu_bytes;
  device.selective_repeat = own.selective_repeat;
  device.always_icrc = own.always_icrc;
  device.congestion = own.congestion;
  if (absl::Status status = CheckName(setting, config, device.name); !status.ok()) return status;
  const absl::Status status =
      AddAddresses(own.addresses.empty() ? kFirstSwitchAddresses : own.addresses, device);
  if (!status.ok()) return Complain(setting, status.message());
  const auto earlier = std::ranges::count_if(config.devices, [&](const DeviceConfig& each) {
    return each.at_switch >= 0 && config.switches[each.at_switch].addresses.empty();
  });
  const auto steps = own.addresses.empty() ? static_cast<uint32_t>(earlier) : port;
  for (InterfaceAddress& address : device.addresses) address.gid = CountedUp(address.gid, steps);
  config.devices.push_back(std::move(device));
  return absl::OkStatus();
}

absl::Status ApplySwitch(Setting setting, Config& config) {
  if (absl::Status status = CheckKeysDiffer(setting); !status.ok()) return status;
  const size_t first = config.devices.size();
  const Setting of_nics = TakeFieldsOfNics(setting);
  SwitchSettings made;
  for (const auto& [key, value] : setting.fields) {
    const absl::Status status = SetSwitchField(key, value, made);
    if (!status.ok()) return Complain(setting, status.message());
  }
  if (made.name.empty()) made.name = absl::StrCat("sw", config.switches.size());
  if (absl::Status status = CheckName(setting, config, made.name); !status.ok()) return status;
  const bool is_taken = std::ranges::any_of(
      config.switches, [&](const SwitchSettings& each) { return each.name == made.name; });
  if (is_taken) return Complain(setting, absl::StrCat("name \"", made.name, "\" is used twice"));
  config.switches.push_back(std::move(made));
  for (uint32_t port = 0; port < config.switches.back().ports; ++port) {
    if (absl::Status status = AddSwitchNic(setting, port, config); !status.ok()) return status;
  }
  return ApplyFieldsOfNics(of_nics, first, config);
}

absl::Status ApplyNics(const Setting& setting, Config& config) {
  const size_t first = config.devices.size();
  const absl::Status status = setting.key == "port"   ? ApplyPort(setting, config)
                              : setting.key == "wire" ? ApplyWire(setting, config)
                                                      : ApplySwitch(setting, config);
  config.nics.push_back({setting, {}});
  for (size_t i = first; i < config.devices.size(); ++i) {
    config.nics.back().names.push_back(config.devices[i].name);
  }
  return status;
}

bool IsOfNics(absl::string_view key) { return key == "port" || key == "wire" || key == "switch"; }

absl::Status ApplyFault(const Setting& setting, Config& config) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(setting.value, absl::MaxSplits(':', 1));
  DeviceConfig* device = FindDevice(config, parts.first);
  if (device == nullptr) {
    return Complain(setting, absl::StrCat("there is no device \"", parts.first,
                                          "\"; write it as uroce0:drop=0.01"));
  }
  const absl::Status status = SetFault(parts.second, *device);
  return status.ok() ? status : Complain(setting, status.message());
}

absl::Status Apply(const Setting& setting, Config& config) {
  if (IsOfNics(setting.key)) return ApplyNics(setting, config);
  for (const Row& row : Rows()) {
    if (setting.key == row.info.key) return ApplyRow(row, setting, config);
  }
  return Complain(setting, "is no setting; see --help");
}

absl::Status ApplyWireInterfaces(Config& config) {
  if (!config.wire_interfaces) return absl::OkStatus();
  bool has_any = false;
  for (DeviceConfig& device : config.devices) {
    device.wire_interface = device.wire >= 0 || device.at_switch >= 0;
    has_any |= device.wire_interface;
  }
  if (has_any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "wire_interfaces: there is no NIC inside; give some by --wire or --switch");
}

absl::Status CheckAddressesDiffer(const Config& config) {
  std::vector<std::pair<Gid, std::string>> seen;
  for (const DeviceConfig& device : config.devices) {
    for (const InterfaceAddress& address : device.addresses) {
      for (const auto& [gid, owner] : seen) {
        if (gid != address.gid) continue;
        return absl::InvalidArgumentError(absl::StrCat("ip: ", FormatAddress(gid), " belongs to ",
                                                       owner, " and to ", device.name,
                                                       "; give each device its own"));
      }
      seen.emplace_back(address.gid, device.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

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

// Faults are applied last: they may name devices that a later flag adds.
absl::StatusOr<Config> MakeConfig(const std::vector<Setting>& settings,
                                  const std::string& default_socket) {
  Config config;
  config.socket_path = default_socket;
  std::vector<const Setting*> faults;
  for (const Setting& setting : settings) {
    if (setting.key == "fault") {
      faults.push_back(&setting);
    } else if (absl::Status status = Apply(setting, config); !status.ok()) {
      return status;
    }
  }
  if (config.devices.empty() && config.switches.empty()) {
    const absl::StatusOr<Setting> wire = SplitFields("--wire", "wire", kDefaultWire);
    if (!wire.ok()) return wire.status();
    if (absl::Status status = ApplyNics(*wire, config); !status.ok()) return status;
  }
  for (const Setting* fault : faults) {
    if (absl::Status status = ApplyFault(*fault, config); !status.ok()) return status;
  }
  if (absl::Status status = ApplyWireInterfaces(config); !status.ok()) return status;
  if (absl::Status status = FinishSwitches(config.switches); !status.ok()) return status;
  if (absl::Status status = CheckAddressesDiffer(config); !status.ok()) return status;
  return config;
}

absl::Status AddPort(const Setting& setting, Config& config) {
  Config next = config;
  if (absl::Status status = ApplyNics(setting, next); !status.ok()) return status;
  if (absl::Status status = CheckAddressesDiffer(next); !status.ok()) return status;
  config = std::move(next);
  return absl::OkStatus();
}

std::string ValueOf(const std::string& key, const Config& config) {
  for (const Row& row : Rows()) {
    if (row.info.key == key) return std::visit(Reader{config}, row.target);
  }
  return "";
}

absl::Status ChangeConfig(const std::vector<Setting>& settings, Config& config) {
  Config changed = config;
  for (const Setting& setting : settings) {
    if (IsOfNics(setting.key)) return Complain(setting, "is no setting of the daemon as a whole");
    if (absl::Status status = Apply(setting, changed); !status.ok()) return status;
  }
  config = std::move(changed);
  return absl::OkStatus();
}

const std::vector<SettingInfo>& SettingInfos() {
  static const auto* const infos = [] {
    auto* made = new std::vector<SettingInfo>;
    for (const Row& row : Rows()) made->push_back(row.info);
    return made;
  }();
  return *infos;
}

}  // namespace uroce::nic
