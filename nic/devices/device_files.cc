// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/device_files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kWordBytes = 4;

/// Errors of InfiniBand's link layer and management, which RoCE does not have.
constexpr const char* kAlwaysZero[] = {"VL15_dropped",
                                       "excessive_buffer_overrun_errors",
                                       "link_error_recovery",
                                       "local_link_integrity_errors",
                                       "port_rcv_remote_physical_errors",
                                       "port_rcv_switch_relay_errors",
                                       "port_xmit_constraint_errors",
                                       "symbol_error"};

}  // namespace

std::map<std::string, uint64_t> CounterFiles(const CounterValues& values) {
  // Those that `counters/` has in place of `hw_counters/`, and a gauge.
  std::set<std::string> used = {"queue_pairs"};
  const auto sum = [&](std::initializer_list<const char*> names) {
    uint64_t total = 0;
    for (const char* name : names) {
      const auto found = values.find(name);
      if (found != values.end()) total += found->second;
      used.insert(name);
    }
    return total;
  };
  std::map<std::string, uint64_t> files;
  for (const char* name : kAlwaysZero) files[std::string("counters/") + name] = 0;
  for (const std::string way : {"rcv", "xmit"}) {
    const std::string packets_name = "port_" + way + "_packets";
    const uint64_t packets = sum({packets_name.c_str()});
    const std::string multicast_name = "multicast_" + way + "_packets";
    const uint64_t multicast = sum({multicast_name.c_str()});
    files["counters/port_" + way + "_data"] =
        sum({("port_" + way + "_bytes").c_str()}) / kWordBytes;
    files["counters/" + packets_name] = packets;
    files["counters/" + multicast_name] = multicast;
    // The two are read one after the other.
    files["counters/unicast_" + way + "_packets"] = packets - std::min(multicast, packets);
  }
  files["counters/port_xmit_discards"] = sum({"port_xmit_discards"});
  files["counters/link_downed"] = sum({"link_downed"});
  files["counters/port_rcv_errors"] =
      sum({"rx_malformed", "rx_icrc_encapsulated", "port_rcv_damaged"});
  files["counters/port_rcv_constraint_errors"] = sum({"rx_bad_pkey"});
  // These are parts of the sums above, and have their own files too.
  for (const char* part :
       {"rx_malformed", "rx_icrc_encapsulated", "port_rcv_damaged", "rx_bad_pkey"}) {
    used.erase(part);
  }
  for (const auto& [name, value] : values) {
    if (!used.contains(name)) files["hw_counters/" + name] = value;
  }
  return files;
}

namespace {

using Files = std::map<std::string, std::string>;

struct Named {
  uint32_t value;
  const char* text;
};
constexpr Named kStates[] = {{1, "DOWN"}, {2, "INIT"}, {3, "ARMED"}, {4, "ACTIVE"}};
constexpr Named kPhysicalStates[] = {{2, "Polling"}, {3, "Disabled"}, {5, "LinkUp"}};

/// Formats as "4: ACTIVE".
template <size_t N>
std::string Numbered(const Named (&names)[N], uint32_t value) {
  const auto* found = std::find_if(std::begin(names), std::end(names),
                                   [value](const Named& each) { return each.value == value; });
  return absl::StrCat(value, ": ", found == std::end(names) ? "<unknown>" : found->text);
}

struct Speed {
  uint32_t code;
  uint32_t tenths_of_gbps;  ///< Of one lane.
  const char* name;
};
constexpr Speed kPortSpeeds[] = {{1, 25, ""},        {2, 50, " DDR"},    {4, 100, " QDR"},
                                 {8, 100, " FDR10"}, {16, 140, " FDR"},  {32, 250, " EDR"},
                                 {64, 500, " HDR"},  {128, 1000, " NDR"}};

uint32_t Lanes(uint32_t width_code) {
  // 1: 1X, 2: 4X, 4: 8X, 8: 12X, 16: 2X.
  if (width_code == 16) return 2;
  return width_code == 1 ? 1 : 4 * static_cast<uint32_t>(std::bit_width(width_code) - 1);
}

/// Formats as "100 Gb/sec (4X EDR)".
std::string Rate(const uroce_port_info& port) {
  const auto* found = std::find_if(std::begin(kPortSpeeds), std::end(kPortSpeeds),
                                   [&](const Speed& s) { return s.code == port.active_speed; });
  const Speed& speed = found == std::end(kPortSpeeds) ? kPortSpeeds[0] : *found;
  const uint32_t lanes = Lanes(port.active_width);
  const uint32_t tenths = speed.tenths_of_gbps * lanes;
  return absl::StrCat(tenths / 10, tenths % 10 != 0 ? ".5" : "", " Gb/sec (", lanes, "X",
                      speed.name, ")");
}

/// Formats hex digits in groups of two bytes.
std::string Groups(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i += 2) {
    absl::StrAppendFormat(&text, "%s%02x%02x", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
  }
  return text;
}

std::string Guid(uint64_t big_endian) {
  const auto bytes = std::bit_cast<std::array<uint8_t, 8>>(big_endian);
  return Groups(bytes.data(), bytes.size());
}

/// The mask of all CPUs, in words of 32 bits: "3,ffffffff".
std::string CpuMask(uint32_t cpus) {
  const uint32_t top = cpus % 32 == 0 ? 32 : cpus % 32;
  std::string mask = absl::StrCat(absl::Hex((uint64_t{1} << top) - 1));
  for (uint32_t words = (cpus - 1) / 32; words > 0; --words) mask += ",ffffffff";
  return mask;
}

void AddDevice(const uroce_device_info& device, Files& files) {
  files.insert({{"node_type", "1: CA"},
                {"node_guid", Guid(device.node_guid)},
                {"sys_image_guid", Guid(device.node_guid)},
                {"fw_ver", device.firmware},
                {"hw_rev", "0x0"},
                {"hca_type", "uroce"},
                {"board_id", "uroce"},
                {"node_desc", device.name}});
}

void AddPort(const uroce_port_info& port, Files& files) {
  files.insert({{"ports/1/state", Numbered(kStates, port.state)},
                {"ports/1/phys_state", Numbered(kPhysicalStates, port.phys_state)},
                {"ports/1/rate", Rate(port)},
                {"ports/1/link_layer", "Ethernet"},
                {"ports/1/lid", "0x0"},
                {"ports/1/sm_lid", "0x0"},
                {"ports/1/sm_sl", "0"},
                {"ports/1/lid_mask_count", "0"},
                {"ports/1/cap_mask", "0x04010000"},  // CM_SUP, IP_BASED_GIDS
                {"ports/1/pkeys/0", "0xffff"}});
}

void AddGids(const DescribedDevice& described, Files& files) {
  for (size_t i = 0; i < described.gids.size(); ++i) {
    const uroce_gid_entry& entry = described.gids[i];
    files.emplace(absl::StrCat("ports/1/gids/", i), Groups(entry.gid, sizeof(entry.gid)));
    if (entry.valid == 0) continue;
    files.emplace(absl::StrCat("ports/1/gid_attrs/types/", i), "RoCE v2");
    if (described.gid_interfaces[i].empty()) continue;
    files.emplace(absl::StrCat("ports/1/gid_attrs/ndevs/", i), described.gid_interfaces[i]);
  }
}

/// A file for each priority instead of the mask.
void AddEnabled(const DescribedDevice& described, const std::string& directory, uint32_t mask,
                Files& files) {
  for (uint32_t priority = 0; priority < congestion::kPriorities; ++priority) {
    const bool is_on = described.profiles[priority] != congestion::Profile::kOff;
    const bool is_enabled = is_on && congestion::IsEnabled(mask, priority);
    files.emplace(absl::StrCat(directory, "enable/", priority), is_enabled ? "1" : "0");
  }
}

void AddCongestion(const DescribedDevice& described, Files& files) {
  congestion::Settings settings = described.congestion;
  files.emplace("ecn/profile", congestion::NameOf(settings.profile));
  for (const congestion::Parameter& parameter : congestion::Parameters()) {
    const std::string directory = absl::StrCat("ecn/", std::string(parameter.directory), "/");
    const uint32_t value = parameter.of(settings);
    if (parameter.name.ends_with("p_enable")) {
      AddEnabled(described, directory, value, files);
    } else {
      files.emplace(directory + std::string(parameter.name), absl::StrCat(value));
    }
  }
}

}  // namespace

Files DeviceFiles(const DescribedDevice& described) {
  Files files;
  AddDevice(described.device, files);
  AddPort(described.port, files);
  AddGids(described, files);
  AddCongestion(described, files);
  files.insert({{"device/numa_node", "-1"}, {"device/local_cpus", CpuMask(described.cpus)}});
  if (!described.interface.empty()) {
    files.emplace(absl::StrCat("device/net/", described.interface, "/dev_port"), "0");
  }
  return files;
}

}  // namespace uroce::nic
