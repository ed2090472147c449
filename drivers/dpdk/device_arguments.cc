// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/device_arguments.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "drivers/dpdk/eal.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kXdpFrameBytes = 63 * 64 - 64 - 128 - 128;

// af_packet: frames of path MTU 4096 do not fit 4096 bytes, and the slot size must divide the
// block. The ring has more slots than a burst, because the kernel also fills it while the worker
// does not run. With qdisc bypass, a frame that finds the NIC busy is lost, and tcpdump never sees
// frames.
//
// af_xdp: without copy mode, or with a busy budget of 0 in zero-copy mode, the driver blocks up to
// a second inside a receive burst; with a budget it makes a system call at every empty burst. An
// XDP frame lies in one page, behind the mempool's header, an mbuf, its headroom and 256 bytes of
// XDP; 63 cache lines in all, because the pool would make 65 of 64. The driver's XDP program takes
// all frames that arrive; a program that the user loads may leave frames other than RoCE to the
// kernel.
//
// iface, udp, memif: no drivers of DPDK. Buffers of a memif of a power of two would crowd into few
// sets of the caches; these buffers hold frames of MTU 9000.
//
// tap: the driver refuses longer frames whatever the interface's MTU is.
//
// vhost: every frame fits a buffer only without TSO.
std::vector<DriverRules> MakeTable() {
  std::vector<DriverRules> table;
  table.push_back({.driver = "", .wake_up = WakeUp::kInterrupt, .sets_mtu = true});
  table.push_back({.driver = "net_af_packet",
                   .keys = {"iface", "qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass"},
                   .required = {"iface"},
                   .defaults = {{"framesz", "8192"},
                                {"blocksz", "65536"},
                                {"framecnt", "2048"},
                                {"qpairs", "1"},
                                {"qdisc_bypass", "0"}},
                   .queues_key = "qpairs",
                   .interface_keys = {"iface"},
                   .wake_up = WakeUp::kPacketSocket});
  table.push_back({.driver = "net_iface",
                   .keys = {"iface"},
                   .required = {"iface"},
                   .interface_keys = {"iface"}});
  table.push_back({.driver = "net_udp",
                   .keys = {"iface", "address"},
                   .required = {"iface", "address"},
                   .interface_keys = {"iface"}});
  table.push_back({.driver = "net_af_xdp",
                   .keys = {"iface", "start_queue", "queue_count", "shared_umem", "xdp_prog",
                            "busy_budget", "force_copy"},
                   .required = {"iface"},
                   .defaults = {{"force_copy", "1"}, {"busy_budget", "0"}},
                   .queues_key = "queue_count",
                   .interface_keys = {"iface"},
                   .takes_interface_without = "xdp_prog",
                   .wake_up = WakeUp::kXdpSocket,
                   .own_pool_frame_bytes = kXdpFrameBytes,
                   .mtu_limit = kXdpFrameBytes - 256 - 22,
                   .pairs_queues = true,
                   .counts_refusals = true});
  table.push_back(
      {.driver = "net_memif",
       .keys = {"role", "socket", "id", "bsize", "rsize", "secret", "zero-copy", "socket-abstract"},
       .required = {"role"},
       .defaults = {{"socket", ""}, {"bsize", "9216"}, {"rsize", "10"}, {"id", "0"}}});
  table.push_back({.driver = "net_tap",
                   .keys = {"iface", "remote", "persist"},
                   .defaults = {{"iface", "uroce-tap"}},
                   .wake_up = WakeUp::kTapQueue,
                   .mtu_limit = 1500,
                   .made_up_mac = true,
                   .pairs_queues = true,
                   .counts_refusals = true});
  table.push_back({.driver = "net_pcap",
                   .keys = {"rx_pcap", "tx_pcap", "rx_iface", "rx_iface_in", "tx_iface", "iface",
                            "phy_mac", "infinite_rx"},
                   .required = {"iface", "rx_pcap", "tx_pcap", "rx_iface", "rx_iface_in"},
                   .interface_keys = {"iface", "rx_iface", "rx_iface_in"},
                   .wake_up = WakeUp::kPacketSocket,
                   .made_up_mac = true});
  table.push_back({.driver = "net_vhost",
                   .keys = {"iface", "queues", "client", "iommu-support", "postcopy-support", "tso",
                            "linear-buffer", "ext-buffer", "legacy-ol-flags"},
                   .required = {"iface"},
                   .queues_key = "queues",
                   .wake_up = WakeUp::kInterrupt,
                   .made_up_mac = true});
  table.push_back({.driver = "net_virtio_user",
                   .keys = {"path", "queues", "cq", "queue_size", "iface", "mrg_rxbuf", "in_order",
                            "packed_vq", "speed", "vectorized"},
                   .required = {"path"},
                   .defaults = {{"queue_size", "1024"}},
                   .queues_key = "queues",
                   .wake_up = WakeUp::kInterrupt,
                   .made_up_mac = true,
                   .sets_mtu = true});
  return table;
}

}  // namespace

const DriverRules& RulesOf(absl::string_view driver) {
  static const auto* const table = new std::vector<DriverRules>(MakeTable());
  static const auto* const unknown = new DriverRules;
  for (const DriverRules& rules : *table) {
    if (rules.driver == driver) return rules;
  }
  return *unknown;
}

namespace {

/// The size of a NIC's buffers is a multiple of this: the e1000 family accepts only powers of two,
/// and spreads a frame over several mbufs when the largest frame may not fit one.
constexpr uint32_t kPciFrameBytes = 8192;

bool IsPciAddress(const std::string& name) {
  return absl::StrContains(name, ':') &&
         name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

/// The address as the kernel and DPDK write it: with the domain, in lower case.
std::string FullPciAddress(const std::string& address) {
  const bool has_domain = std::ranges::count(address, ':') == 2;
  return absl::AsciiStrToLower(has_domain ? address : absl::StrCat("0000:", address));
}

/// Six pairs of hexadecimal digits with ':' between them.
std::optional<Mac> ParseMac(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  Mac mac;
  if (parts.size() != mac.size()) return std::nullopt;
  for (size_t i = 0; i < mac.size(); ++i) {
    uint32_t byte = 0;
    if (parts[i].size() != 2 || !absl::SimpleHexAtoi(parts[i], &byte)) return std::nullopt;
    mac[i] = static_cast<uint8_t>(byte);
  }
  return mac;
}

absl::Status TakeMac(DeviceArguments& arguments, const std::string& text) {
  arguments.mac = ParseMac(text);
  constexpr uint8_t kGroupBit = 1;
  if (!arguments.mac.has_value() || (arguments.mac->front() & kGroupBit) != 0) {
    return BadArguments(
        arguments, absl::StrCat("mac=", text, " is no unicast address such as 02:00:00:00:00:01"));
  }
  if (!arguments.Interface().empty()) {
    return BadArguments(arguments, absl::StrCat("mac: the port has the address of the interface ",
                                                arguments.Interface()));
  }
  return absl::OkStatus();
}

absl::Status CheckKeys(const DeviceArguments& arguments) {
  const DriverRules& rules = arguments.rules();
  const auto& values = arguments.values;
  for (const auto& [key, value] : values) {
    const auto same = [&key = key](const auto& other) { return other.first == key; };
    if (std::ranges::count_if(values, same) > 1) {
      return BadArguments(arguments, absl::StrCat("\"", key, "\" is given twice"));
    }
    if (!rules.keys.empty() && std::ranges::find(rules.keys, key) == rules.keys.end()) {
      return BadArguments(arguments, absl::StrCat("unknown key \"", key, "\"; ", arguments.driver,
                                                  " takes ", absl::StrJoin(rules.keys, ", ")));
    }
    if (!rules.keys.empty() && value.empty()) {
      return BadArguments(arguments, absl::StrCat(key, "= has no value"));
    }
  }
  const auto given = [&](absl::string_view key) { return arguments.Find(key) != nullptr; };
  if (rules.required.empty() || std::ranges::any_of(rules.required, given)) return absl::OkStatus();
  return BadArguments(arguments,
                      absl::StrCat(absl::StrJoin(rules.required, "=... or "), "=... is missing"));
}

/// Splits "key=value" parts; `mac` is ours, not the driver's.
absl::Status TakeValues(DeviceArguments& arguments, const std::vector<std::string>& parts) {
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> value =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (value.first.empty()) return BadArguments(arguments, "an empty part between separators");
    arguments.values.push_back(value);
  }
  const auto is_mac = [](const auto& value) { return value.first == "mac"; };
  const auto found = std::ranges::find_if(arguments.values, is_mac);
  if (found == arguments.values.end()) return absl::OkStatus();
  const std::string text = found->second;
  arguments.values.erase(found);
  return TakeMac(arguments, text);
}

}  // namespace

const std::string* DeviceArguments::Find(absl::string_view key) const {
  for (const auto& [name_of_value, value] : values) {
    if (name_of_value == key) return &value;
  }
  return nullptr;
}

std::string DeviceArguments::Value(absl::string_view key) const {
  const std::string* value = Find(key);
  return value == nullptr ? "" : *value;
}

void DeviceArguments::AddDefault(absl::string_view key, absl::string_view value) {
  if (Find(key) == nullptr) values.emplace_back(std::string(key), std::string(value));
}

std::string DeviceArguments::Interface() const {
  for (const absl::string_view key : rules().interface_keys) {
    if (Find(key) != nullptr) return *Find(key);
  }
  return "";
}

bool DeviceArguments::IsShared() const {
  const absl::string_view key = rules().takes_interface_without;
  return !Interface().empty() && (key.empty() || Find(key) != nullptr);
}

std::string DeviceArguments::ToDpdk() const {
  std::string text = name;
  for (const auto& [key, value] : values) absl::StrAppend(&text, ",", key, "=", value);
  return text;
}

absl::Status BadArguments(const DeviceArguments& arguments, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("dev \"", arguments.name, "\": ", why));
}

absl::StatusOr<DeviceArguments> ParseDeviceArguments(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(";,"));
  DeviceArguments arguments;
  arguments.name = parts.front();
  if (arguments.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dev \"", text, "\": no device; for example net_af_packet0;iface=eth0 or 0000:3b:00.0"));
  }
  if (IsPciAddress(arguments.name)) {
    arguments.name = FullPciAddress(arguments.name);
  } else {
    const size_t last = arguments.name.find_last_not_of("0123456789");
    arguments.driver = last == std::string::npos ? "" : arguments.name.substr(0, last + 1);
    if (!absl::StartsWith(arguments.driver, "net_")) {
      return BadArguments(arguments, "neither a PCI address nor a DPDK driver name (net_...)");
    }
  }
  if (absl::Status status = TakeValues(arguments, parts); !status.ok()) return status;
  if (absl::Status status = CheckKeys(arguments); !status.ok()) return status;
  for (const auto& [key, value] : arguments.rules().defaults) arguments.AddDefault(key, value);
  return arguments;
}

uint32_t RequiredFrameBytes(const DeviceArguments& arguments, uint32_t mtu_bytes) {
  uint32_t frame_bytes = RequiredFrameBytes(mtu_bytes);
  if (arguments.IsPci() && mtu_bytes > kStandardMtu) {
    frame_bytes = std::max(frame_bytes, kPciFrameBytes);
  }
  uint32_t slot_bytes = 0;
  if (absl::SimpleAtoi(arguments.Value("framesz"), &slot_bytes)) {
    frame_bytes = std::max(frame_bytes, slot_bytes);
  }
  return frame_bytes;
}

std::string DeviceArguments::Identity() const {
  std::string identity = name;
  for (const char* key :
       {"iface", "address", "path", "socket", "role", "id", "rx_pcap", "tx_pcap"}) {
    absl::StrAppend(&identity, "|", Value(key));
  }
  return identity;
}

}  // namespace uroce::drivers
