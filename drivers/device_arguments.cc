// SPDX-License-Identifier: Apache-2.0
#include "drivers/device_arguments.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/eal.h"

namespace uroce::drivers {
namespace {

constexpr char kAfPacket[] = "net_af_packet";

// Frames of path MTU 4096 do not fit 4096 bytes, and the size must divide the block. More slots
// than bursts: the kernel fills the ring also while the worker does not run.
constexpr char kAfPacketFrameBytes[] = "8192";
constexpr char kAfPacketBlockBytes[] = "65536";
constexpr char kAfPacketFrames[] = "2048";

bool IsPciAddress(const std::string& name) {
  return name.find(':') != std::string::npos &&
         name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

void AddDefault(DeviceArguments& arguments, absl::string_view key, absl::string_view value) {
  if (arguments.Find(key) == nullptr)
    arguments.values.emplace_back(std::string(key), std::string(value));
}

void AddDefaults(DeviceArguments& arguments) {
  if (arguments.driver != kAfPacket) return;
  AddDefault(arguments, "framesz", kAfPacketFrameBytes);
  AddDefault(arguments, "blocksz", kAfPacketBlockBytes);
  AddDefault(arguments, "framecnt", kAfPacketFrames);
  AddDefault(arguments, "qpairs", "1");
  // Past the queueing discipline a frame that finds the NIC busy is lost, and tcpdump never sees
  // it.
  AddDefault(arguments, "qdisc_bypass", "0");
}

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("dev \"", text, "\": ", why));
}

}  // namespace

const std::string* DeviceArguments::Find(absl::string_view key) const {
  for (const auto& [name_of_value, value] : values) {
    if (name_of_value == key) return &value;
  }
  return nullptr;
}

std::string DeviceArguments::Interface() const {
  const bool attaches = driver == kAfPacket || driver == "net_af_xdp" || driver == "net_tap";
  const std::string* interface = Find("iface");
  return attaches && interface != nullptr ? *interface : "";
}

std::string DeviceArguments::ToDpdk() const {
  std::string text = name;
  for (const auto& [key, value] : values) absl::StrAppend(&text, ",", key, "=", value);
  return text;
}

absl::StatusOr<DeviceArguments> ParseDeviceArguments(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(";,"));
  DeviceArguments arguments;
  arguments.name = parts.front();
  if (arguments.name.empty()) {
    return Bad(text, "no device; for example net_af_packet0;iface=eth0 or 0000:3b:00.0");
  }
  if (!IsPciAddress(arguments.name)) {
    const size_t last = arguments.name.find_last_not_of("0123456789");
    arguments.driver = last == std::string::npos ? "" : arguments.name.substr(0, last + 1);
    if (!arguments.driver.starts_with("net_")) {
      return Bad(text, "neither a PCI address nor a DPDK driver name (net_...)");
    }
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> value =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (value.first.empty()) return Bad(text, "an empty part between separators");
    arguments.values.push_back(value);
  }
  if (arguments.driver == kAfPacket && arguments.Interface().empty()) {
    return Bad(text, "iface=INTERFACE is missing");
  }
  AddDefaults(arguments);
  return arguments;
}

uint32_t RequiredFrameBytes(const DeviceArguments& arguments) {
  uint32_t frame_bytes = kRoceFrameBytes;
  for (const absl::string_view key : {"framesz", "bsize"}) {
    uint32_t value = 0;
    const std::string* text = arguments.Find(key);
    if (text != nullptr && absl::SimpleAtoi(*text, &value)) {
      frame_bytes = std::max(frame_bytes, value);
    }
  }
  return frame_bytes;
}

}  // namespace uroce::drivers
