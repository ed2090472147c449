// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/counter_files.h"

#include <algorithm>
#include <initializer_list>
#include <set>

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
  // These are parts of the sums above, and have files of their own too.
  for (const char* part :
       {"rx_malformed", "rx_icrc_encapsulated", "port_rcv_damaged", "rx_bad_pkey"}) {
    used.erase(part);
  }
  for (const auto& [name, value] : values) {
    if (!used.contains(name)) files["hw_counters/" + name] = value;
  }
  return files;
}

}  // namespace uroce::nic
