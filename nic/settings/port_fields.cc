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
  if (!device.dev.empty()) return absl::InvalidArgumentError("iface and dev exclude each other");
  device.dev = WithCommas(text);
  return absl::OkStatus();
}

absl::Status SetInterface(const std::string& text, DeviceConfig& device) {
  const absl::Status status = SetDev(absl::StrCat("net_iface,iface=", text), device);
  if (!status.ok()) return status;
  return drivers::ParseDeviceArguments(device.dev).status();
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
    {"ip", AddAddresses},
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

std::span<const PortField> PortFields() { return kFields; }

}  // namespace uroce::nic
