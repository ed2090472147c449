// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/port_kind.h"

#include <arpa/inet.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/dpdk/device_arguments.h"

namespace uroce::nic {
namespace {

std::optional<Gid> ParseGid(const std::string& text) {
  Gid gid;
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  if (inet_pton(AF_INET, text.c_str(), gid.bytes.data() + 12) == 1) return gid;
  return std::nullopt;
}

drivers::KernelInterface KernelInterfaceOf(const drivers::DeviceArguments& arguments) {
  return {.device = arguments.name, .interface = arguments.Interface()};
}

drivers::UdpSocket UdpSocketOf(const drivers::DeviceArguments& arguments) {
  drivers::UdpSocket udp{.device = arguments.name,
                         .text = arguments.Interface(),
                         .place = {.interface = arguments.Interface(), .addresses = {}},
                         .identity = arguments.Identity()};
  if (!udp.text.empty()) return udp;
  udp.text = arguments.Value("address");
  for (const absl::string_view part : absl::StrSplit(udp.text, '+', absl::SkipEmpty())) {
    const std::optional<Gid> gid = ParseGid(std::string(part));
    if (gid) udp.place.addresses.push_back(*gid);
  }
  return udp;
}

/// The arguments of a uroce driver that has one.
absl::StatusOr<drivers::DeviceArguments> OneArgument(const char* driver, const char* key,
                                                     const std::string& value) {
  if (value.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dev \"", driver, "\": ", key, "= has no value"));
  }
  return drivers::DeviceArguments{
      .name = driver, .driver = driver, .values = {{key, value}}, .mac = {}};
}

}  // namespace

absl::StatusOr<PortKind> ParseDevice(const std::string& text) {
  absl::StatusOr<drivers::DeviceArguments> arguments = drivers::ParseDeviceArguments(text);
  if (!arguments.ok()) return arguments.status();
  if (arguments->driver == drivers::kPacketSocketDriver) return KernelInterfaceOf(*arguments);
  if (arguments->driver == drivers::kUdpDriver) return UdpSocketOf(*arguments);
  if (arguments->driver != drivers::kMemifDriver) {
    return drivers::DpdkDevice{.text = text, .arguments = *std::move(arguments)};
  }
  absl::StatusOr<drivers::MemifConfig> memif = drivers::ParseMemifConfig(*arguments);
  if (!memif.ok()) return memif.status();
  return *std::move(memif);
}

absl::StatusOr<PortKind> ParseInterface(const std::string& name) {
  const auto arguments = OneArgument(drivers::kPacketSocketDriver, "iface", name);
  if (!arguments.ok()) return arguments.status();
  return KernelInterfaceOf(*arguments);
}

absl::StatusOr<PortKind> ParseUdpInterface(const std::string& name) {
  const auto arguments = OneArgument(drivers::kUdpDriver, "iface", name);
  if (!arguments.ok()) return arguments.status();
  return UdpSocketOf(*arguments);
}

absl::StatusOr<PortKind> ParseUdpAddresses(const std::string& addresses) {
  const auto arguments = OneArgument(drivers::kUdpDriver, "address", addresses);
  if (!arguments.ok()) return arguments.status();
  return UdpSocketOf(*arguments);
}

namespace {

struct InterfaceReader {
  std::string operator()(const drivers::KernelInterface& kind) const { return kind.interface; }
  std::string operator()(const drivers::UdpSocket& kind) const { return kind.place.interface; }
  std::string operator()(const drivers::DpdkDevice& kind) const {
    return kind.arguments.Interface();
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::string InterfaceOf(const PortKind& kind) { return std::visit(InterfaceReader(), kind); }

bool MayComeAndGo(const PortKind& kind) {
  return !std::holds_alternative<std::monostate>(kind) &&
         !std::holds_alternative<drivers::DpdkDevice>(kind);
}

}  // namespace uroce::nic
