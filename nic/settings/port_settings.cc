// SPDX-License-Identifier: Apache-2.0
// Parses the fields of one port, its network among them, and checks a port that is added while the
// daemon runs. Pure.
#include "nic/settings/port_settings.h"

#include <net/if.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/fault/fault_config.h"
#include "nic/settings/setting.h"
#include "pipeline/port/port.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxRoutes = 64;

std::vector<absl::string_view> Parts(const std::string& text) {
  return absl::StrSplit(text, '+', absl::SkipWhitespace());
}

absl::Status AddRoute(const absl::StatusOr<Route>& route, DeviceConfig& device) {
  if (!route.ok()) return route.status();
  device.routes.push_back(*route);
  if (device.routes.size() <= kMaxRoutes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxRoutes, " routes"));
}

// Every port has its link-local default GID, so a link-local gateway needs no address.
bool HasOnLink(const DeviceConfig& device, const Gid& gateway) {
  if (IsLinkLocal(gateway)) return true;
  return std::any_of(device.addresses.begin(), device.addresses.end(),
                     [&](const auto& address) { return OnLink(address, gateway); });
}

absl::Status CheckGateway(const DeviceConfig& device, const Route& route) {
  for (const InterfaceAddress& address : device.addresses) {
    if (address.gid != route.gateway) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("gateway ", FormatAddress(route.gateway), " is the port's own address"));
  }
  if (HasOnLink(device, route.gateway)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gateway ", FormatAddress(route.gateway),
                                                 " is in the prefix of none of the addresses"));
}

absl::Status CheckPrefixesDiffer(const DeviceConfig& device) {
  const std::vector<Route>& routes = device.routes;
  for (size_t i = 0; i < routes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (routes[i].prefix != routes[j].prefix) continue;
      if (routes[i].prefix_bits != routes[j].prefix_bits) continue;
      return absl::InvalidArgumentError(absl::StrCat("routes \"", FormatRoute(routes[j]),
                                                     "\" and \"", FormatRoute(routes[i]),
                                                     "\" are to the same destinations"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddAddresses(const std::string& text, DeviceConfig& device) {
  for (const absl::string_view part : Parts(text)) {
    absl::StatusOr<InterfaceAddress> address = ParseInterfaceAddress(part);
    if (!address.ok()) return address.status();
    device.addresses.push_back(*address);
  }
  if (device.addresses.size() < UROCE_MAX_GIDS) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("more than ", UROCE_MAX_GIDS - 1, " addresses"));
}

absl::Status AddGateways(const std::string& text, DeviceConfig& device) {
  for (const absl::string_view part : Parts(text)) {
    if (absl::Status status = AddRoute(ParseGateway(part), device); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AddRoutes(const std::string& text, DeviceConfig& device) {
  for (const absl::string_view part : Parts(text)) {
    if (absl::Status status = AddRoute(ParseRoute(part), device); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SetHost(const std::string& text, DeviceConfig& device) {
  device.own_host = text == "uroce";
  if (device.own_host || text == "kernel") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("host \"", text, "\" is neither kernel nor uroce"));
}

// '%' is refused because the kernel would replace it by a number.
absl::Status SetException(const std::string& text, DeviceConfig& device) {
  const bool allowed = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(c) && c != '/' && c != ':' && c != '%';
  });
  if (text.empty() || text.size() >= IFNAMSIZ || text == "." || text == ".." || !allowed) {
    return absl::InvalidArgumentError(absl::StrCat("exception \"", text,
                                                   "\" is no name of an interface: 1 to ",
                                                   IFNAMSIZ - 1, " characters, such as tap0"));
  }
  device.exception = text;
  return absl::OkStatus();
}

absl::Status CheckNetwork(const DeviceConfig& device) {
  const std::string interface = InterfaceOf(device.kind);
  if (!interface.empty() && !device.routes.empty() && !device.own_host) {
    return absl::InvalidArgumentError(
        absl::StrCat("gateway and route are not for a port on ", interface,
                     ": it uses the kernel's routes, unless host=uroce is given"));
  }
  if (!interface.empty() && !device.exception.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("exception is not for a port on ", interface,
                     ": the kernel goes on using that interface itself"));
  }
  if (device.own_host && !device.exception.empty()) {
    return absl::InvalidArgumentError(
        "host=uroce and exception exclude each other: with a TAP the kernel is the host");
  }
  for (const Route& route : device.routes) {
    if (absl::Status status = CheckGateway(device, route); !status.ok()) return status;
  }
  return CheckPrefixesDiffer(device);
}

namespace {

constexpr uint32_t kMaxQueues = 16;

// ';' stands for ',' inside a field.
std::string WithCommas(std::string text) {
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

absl::Status SetKind(absl::StatusOr<PortKind> kind, DeviceConfig& device) {
  if (!std::holds_alternative<std::monostate>(device.kind)) {
    return absl::InvalidArgumentError("iface, udp and dev exclude each other");
  }
  if (!kind.ok()) return kind.status();
  device.kind = *std::move(kind);
  return absl::OkStatus();
}

absl::Status SetDev(const std::string& text, DeviceConfig& device) {
  return SetKind(ParseDevice(WithCommas(text)), device);
}

absl::Status SetInterface(const std::string& text, DeviceConfig& device) {
  return SetKind(ParseInterface(text), device);
}

// Addresses are also those of the NIC: a socket has no others.
absl::Status SetUdp(const std::string& text, DeviceConfig& device) {
  if (!device.addresses.empty()) return absl::InvalidArgumentError("ip and udp exclude each other");
  const absl::Status added = AddAddresses(text, device);
  const bool is_address = added.ok();
  if (!is_address && ParseIpPrefix(text.substr(0, text.find('+'))).ok()) return added;
  if (!is_address) device.addresses.clear();
  for (size_t i = 0; i < device.addresses.size(); ++i) {
    const InterfaceAddress& address = device.addresses[i];
    const bool is_second = i > 0 && address.gid.is_ipv4() == device.addresses[0].gid.is_ipv4();
    if (address.prefix_bits == 128 && address.vlan_id == 0 && i < 2 && !is_second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("udp \"", text,
                     "\" is neither an interface, nor an address, nor an IPv4 and an "
                     "IPv6 address joined by '+', such as 192.0.2.1+2001:db8::1"));
  }
  return SetKind(is_address ? ParseUdpAddresses(text) : ParseUdpInterface(text), device);
}

absl::Status SetIp(const std::string& text, DeviceConfig& device) {
  if (std::holds_alternative<drivers::UdpSocket>(device.kind)) {
    return absl::InvalidArgumentError("ip and udp exclude each other");
  }
  return AddAddresses(text, device);
}

absl::Status SetMtu(const std::string& text, DeviceConfig& device) {
  if (absl::SimpleAtoi(text, &device.mtu_bytes) && device.mtu_bytes >= kMinMtuBytes &&
      device.mtu_bytes <= kMaxMtuBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("mtu \"", text, "\" is not a number from ", kMinMtuBytes, " to ", kMaxMtuBytes));
}

absl::Status SetQueues(const std::string& text, DeviceConfig& device) {
  if (absl::SimpleAtoi(text, &device.queues) && device.queues >= 1 && device.queues <= kMaxQueues) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("queues \"", text, "\" is not a number from 1 to ", kMaxQueues));
}

absl::Status SetFlowControl(const std::string& text, DeviceConfig& device) {
  device.flow_control = drivers::ParseFlowControl(text);
  if (device.flow_control) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("flow-control \"", text, "\" is none of off, rx, tx, full"));
}

constexpr PortField kFields[] = {
    {"iface", SetInterface},
    {"dev", SetDev},
    {"udp", SetUdp},
    {"ip", SetIp},
    {"gateway", AddGateways},
    {"route", AddRoutes},
    {"exception", SetException},
    {"host", SetHost},
    {"mtu", SetMtu},
    {"queues", SetQueues},
    {kFaultKey, SetFault},
    {kSelectiveRepeatKey, SetSelectiveRepeat},
    {kRateKey, SetRate},
    {"flow-control", SetFlowControl},
};

}  // namespace

absl::Status SetFault(const std::string& text, DeviceConfig& device) {
  if (text == "off") {
    device.fault = {};
    return absl::OkStatus();
  }
  absl::StatusOr<drivers::FaultConfig> fault = drivers::ParseFault(WithCommas(text));
  if (!fault.ok()) return fault.status();
  device.fault = *std::move(fault);
  return absl::OkStatus();
}

absl::Status SetRate(const std::string& text, DeviceConfig& device) {
  device.rate_bps = 0;
  if (text == "off") return absl::OkStatus();
  const absl::Status status = ParseRate(text, device.rate_bps);
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(kRateKey, " ", status.message()));
}

absl::Status SetSelectiveRepeat(const std::string& text, DeviceConfig& device) {
  device.selective_repeat = text == "on";
  if (text == "on" || text == "off") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kSelectiveRepeatKey, " \"", text, "\" is neither on nor off"));
}

absl::Status SetIcrc(const std::string& text, bool& always) {
  always = text == "always";
  if (always || text == "needed") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kIcrcKey, " \"", text, "\" is neither always nor needed"));
}

std::span<const PortField> PortFields() { return kFields; }

absl::Status ChangePort(const std::string& text, DeviceConfig& device) {
  const absl::StatusOr<Setting> words = SplitFields(device.name, "port", text);
  if (!words.ok()) return words.status();
  if (absl::Status status = CheckKeysDiffer(*words); !status.ok()) return status;
  DeviceConfig next = device;
  for (const auto& [key, value] : words->fields) {
    absl::Status status;
    if (key == kRateKey) {
      status = SetRate(value, next);
    } else if (key == kFaultKey) {
      status = SetFault(value, next);
    } else if (IsCongestionKey(key)) {
      status = SetCongestion(key, value, next.congestion);
    } else {
      status = absl::InvalidArgumentError(
          absl::StrCat("\"", key,
                       "\" does not change while the daemon runs; rate, fault, cc, cc.PRIORITY and "
                       "cc.PARAMETER do"));
    }
    if (!status.ok()) return Complain(*words, status.message());
  }
  device = std::move(next);
  return absl::OkStatus();
}

namespace {

/// `present` and `next`: without and with the port.
absl::Status CheckAddable(const DeviceConfig& device, const Config& present, const Config& next) {
  if (device.cable()) return absl::OkStatus();
  if (const SwitchPort* const at = device.at_switch()) {
    const SwitchSettings& its = present.switches[at->switch_index];
    if (next.switches[at->switch_index].ports == its.ports) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "switch=", its.name, ": its ", its.ports, " ports have NICs; uroce port remove frees one"));
  }
  if (const auto* const dpdk = std::get_if<drivers::DpdkDevice>(&device.kind)) {
    return absl::UnimplementedError(
        absl::StrCat("dev=", dpdk->text,
                     ": DPDK finds its devices only when uroced starts; give it by --port, "
                     "or add a port by udp=, iface=, switch= or dev=net_memif0"));
  }
  if (!device.exception.empty()) {
    return absl::UnimplementedError(absl::StrCat("exception=", device.exception,
                                                 ": such a port is only made when uroced starts"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PortAddition> ParsePortAddition(const std::string& key, const std::string& text,
                                               const Config& present) {
  absl::StatusOr<Setting> setting = SplitFields("port add", key, text);
  if (!setting.ok()) return setting.status();
  Config next = present;
  if (absl::Status status = AddNics(*setting, next); !status.ok()) return status;
  PortAddition addition{*std::move(setting), {}};
  for (size_t i = present.devices.size(); i < next.devices.size(); ++i) {
    DeviceConfig& device = next.devices[i];
    if (absl::Status status = CheckAddable(device, present, next); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("port add: name=", device.name, ": ", status.message()));
    }
    addition.nics.push_back(std::move(device));
  }
  return addition;
}

absl::Status CheckRemovable(const DeviceConfig& device) {
  if (device.is_inside()) return absl::OkStatus();
  const char* stays = nullptr;
  if (!device.exception.empty()) {
    stays = "it has an exception interface";
  } else if (!MayComeAndGo(device.kind)) {
    stays = "it is driven by DPDK";
  }
  if (stays == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, ": ", stays, ", and stays as long as the daemon"));
}

}  // namespace uroce::nic
