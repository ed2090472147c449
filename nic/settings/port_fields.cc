// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/port_fields.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/fault/fault_config.h"
#include "drivers/port.h"
#include "nic/settings/amount.h"
#include "nic/settings/port_network.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kMinMtu = 352;  // Path MTU 256 and its headers.
constexpr uint32_t kMaxMtu = 9600;
constexpr uint32_t kMaxQueues = 16;

// ';' stands for ',' inside a field.
std::string WithCommas(std::string text) {
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

absl::Status SetDev(const std::string& text, DeviceConfig& device) {
  if (!device.dev.empty())
    return absl::InvalidArgumentError("iface, udp and dev exclude each other");
  device.dev = WithCommas(text);
  return absl::OkStatus();
}

absl::Status SetInterface(const std::string& text, DeviceConfig& device) {
  const absl::Status status = SetDev(absl::StrCat("net_iface,iface=", text), device);
  if (!status.ok()) return status;
  return drivers::ParseDeviceArguments(device.dev).status();
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
  const absl::Status status =
      SetDev(absl::StrCat(drivers::kUdpDriver, is_address ? ",address=" : ",iface=", text), device);
  if (!status.ok()) return status;
  return drivers::ParseDeviceArguments(device.dev).status();
}

absl::Status SetIp(const std::string& text, DeviceConfig& device) {
  const auto arguments = drivers::ParseDeviceArguments(device.dev);
  if (arguments.ok() && arguments->driver == drivers::kUdpDriver) {
    return absl::InvalidArgumentError("ip and udp exclude each other");
  }
  return AddAddresses(text, device);
}

absl::Status SetMtu(const std::string& text, DeviceConfig& device) {
  if (absl::SimpleAtoi(text, &device.mtu_bytes) && device.mtu_bytes >= kMinMtu &&
      device.mtu_bytes <= kMaxMtu) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("mtu \"", text, "\" is not a number from ", kMinMtu, " to ", kMaxMtu));
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
    {"fault", SetFault},
    {kSelectiveRepeatKey, SetSelectiveRepeat},
    {kRateKey, SetRate},
    {"flow-control", SetFlowControl},
};

}  // namespace

absl::Status SetFault(const std::string& text, DeviceConfig& device) {
  device.fault = WithCommas(text);
  return drivers::ParseFault(device.fault).status();
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

}  // namespace uroce::nic
