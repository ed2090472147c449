// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/port_network.h"

#include <net/if.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/dpdk/device_arguments.h"
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

// "" also for a device that cannot be parsed: opening it reports the error.
std::string KernelInterfaceOf(const DeviceConfig& device) {
  const auto arguments = drivers::ParseDeviceArguments(device.dev);
  return arguments.ok() ? arguments->Interface() : "";
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
  const std::string interface = KernelInterfaceOf(device);
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

}  // namespace uroce::nic
