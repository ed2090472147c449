// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/nic_settings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/port_settings.h"
#include "pipeline/os/suggestion.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxNameLength = 15;  // Of a device: fits the columns of all tools.
// It can stand among the device names of a wire. kRateKey cannot be told from one, and is none.
static_assert(kSelectiveRepeatKey.size() > kMaxNameLength);

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
  std::string known = "name, switch, cc, cc.PRIORITY, cc.PARAMETER";
  for (const PortField& field : PortFields()) {
    absl::StrAppend(&known, ", ", field.key);
    if (key != field.key) continue;
    const absl::Status status = field.set(value, device);
    return status.ok() ? status : Complain(setting, status.message());
  }
  return Complain(setting, absl::StrCat("unknown key \"", key, "\"; the keys are ", known));
}

bool IsNicKey(absl::string_view key);

/// What all NICs at a switch have of it.
DeviceConfig NicAt(const Config& config, size_t switch_index) {
  const SwitchSettings& its = config.switches[switch_index];
  DeviceConfig device;
  device.kind = SwitchPort{static_cast<uint32_t>(switch_index)};
  device.mtu_bytes = its.mtu_bytes;
  device.selective_repeat = its.selective_repeat;
  device.always_icrc = its.always_icrc;
  device.congestion = its.congestion;
  return device;
}

/// A NIC at a free port of the switch `name`, or at one more port.
absl::Status ApplyPortAtSwitch(const Setting& setting, const std::string& name, Config& config) {
  const auto its = std::ranges::find(config.switches, name, &SwitchSettings::name);
  if (its == config.switches.end()) {
    std::vector<std::string> names;
    for (const SwitchSettings& each : config.switches) names.push_back(each.name);
    return Complain(setting, absl::StrCat("switch \"", name, "\": there is no such switch",
                                          Suggestion(name, names)));
  }
  const auto index = its - config.switches.begin();
  DeviceConfig device = NicAt(config, static_cast<size_t>(index));
  for (const auto& [key, value] : setting.fields) {
    if (key == kSwitchKey) continue;
    if (!IsNicKey(key) && key != "name" && key != "ip" && key != "fault") {
      return Complain(setting,
                      absl::StrCat("\"", key, "\" is no key of a NIC at a switch; these are ",
                                   "name, switch, ip, fault, rate, cc, cc.PRIORITY, "
                                   "cc.PARAMETER, selective-repeat"));
    }
    absl::Status status = ApplyField(setting, config, key, value, device);
    if (!status.ok()) return status;
  }
  if (device.name.empty()) return Complain(setting, "name=... is missing, such as name=uroce0");
  if (device.addresses.empty()) {
    return Complain(
        setting, absl::StrCat("name=", device.name, ": ip=... is missing, such as ip=10.0.0.9/24"));
  }
  const auto there = std::ranges::count(config.devices, device.kind, &DeviceConfig::kind);
  its->ports = std::max(its->ports, static_cast<uint32_t>(there) + 1);
  config.devices.push_back(std::move(device));
  return absl::OkStatus();
}

absl::Status ApplyPort(const Setting& setting, Config& config) {
  if (absl::Status status = CheckKeysDiffer(setting); !status.ok()) return status;
  if (const std::string* const name = SwitchOf(setting)) {
    return ApplyPortAtSwitch(setting, *name, config);
  }
  DeviceConfig device;
  for (const auto& [key, value] : setting.fields) {
    if (absl::Status status = ApplyField(setting, config, key, value, device); !status.ok()) {
      return status;
    }
  }
  if (device.name.empty()) return Complain(setting, "name=... is missing, such as name=uroce0");
  if (std::holds_alternative<std::monostate>(device.kind)) {
    return Complain(setting,
                    "iface=..., udp=... or dev=... is missing, such as iface=eth0, or switch=...");
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
    std::vector<std::string> names;
    for (const auto& [name, addresses] : setting.fields) names.push_back(name);
    return Complain(setting, absl::StrCat("a wire has two ends, not ", names.size(), " (",
                                          absl::StrJoin(names, ", "),
                                          "), such as uroce0=10.0.0.1/24,uroce1=10.0.0.2/24"));
  }
  CableEnd end;
  for (const DeviceConfig& device : config.devices) {
    if (device.cable()) end.cable = std::max(end.cable, device.cable()->cable + 1);
  }
  for (const auto& [name, addresses] : setting.fields) {
    if (absl::Status status = CheckName(setting, config, name); !status.ok()) return status;
    DeviceConfig device = common;
    device.name = name;
    device.kind = end;
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

/// Adds the NIC at the next port of the last switch. If the switch has no addresses, the NIC's
/// address continues the sequence over all such switches.
absl::Status AddSwitchNic(const Setting& setting, uint32_t port, Config& config) {
  const SwitchSettings& own = config.switches.back();
  DeviceConfig device = NicAt(config, config.switches.size() - 1);
  device.name = FreeDeviceName(config);
  if (absl::Status status = CheckName(setting, config, device.name); !status.ok()) return status;
  const absl::Status status =
      AddAddresses(own.addresses.empty() ? kFirstSwitchAddresses : own.addresses, device);
  if (!status.ok()) return Complain(setting, status.message());
  const auto earlier = std::ranges::count_if(config.devices, [&](const DeviceConfig& each) {
    const SwitchPort* const at = each.at_switch();
    return at != nullptr && config.switches[at->switch_index].addresses.empty();
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

}  // namespace

const std::string* SwitchOf(const Setting& setting) {
  if (setting.key != "port") return nullptr;
  for (const auto& [key, value] : setting.fields) {
    if (key == kSwitchKey) return &value;
  }
  return nullptr;
}

bool IsOfNics(absl::string_view key) { return key == "port" || key == "wire" || key == "switch"; }

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

}  // namespace uroce::nic
