// SPDX-License-Identifier: Apache-2.0
// Invariants of the parsers of flags and settings files that hold for any bytes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "nic/settings/config_file.h"
#include "nic/settings/flags.h"

namespace uroce::nic {

/// Settings, as files and flags, that are accepted.
inline constexpr const char* kGoodConfigs[] = {
    "workers = 1\nmax_qp = 100\n[[port]]\nname = \"uroce0\"\ndev = \"net_af_packet0;iface=eth0\"\n"
    "ip = [\"192.0.2.1/24\", \"2001:db8::1/64\", \"10.5.0.1/24 vlan 100\"]\nmtu = 4200\n",
    "[[wire]]\nuroce0 = \"10.0.0.1/24\"\nuroce1 = \"10.0.0.2/24\"\nfault = \"uroce0:drop=0.01\"\n",
    "--wire\nuroce0=10.0.0.1/24+fd00::1/64,uroce1=10.0.0.2/24\n--fault\nuroce0:drop=0.5,seed=7",
    "--port\nname=uroce0,dev=0000:3b:00.0,ip=192.0.2.1/24,gateway=192.0.2.254,"
    "route=10.9.0.0/16 via 192.0.2.7,queues=2,mtu=4200\n--max-memory-per-user=1048576\n--no-huge",
    "--port\nname=a,dev=net_tap0;iface=tap0,host=uroce,exception=tap1\n--log-level\ndebug",
    "--wire-interfaces\n--wire\na=10.0.0.1/24,b=10.0.0.2/24",
};

/// Whether the status is ok, or an error with a message.
inline bool IsSaid(const absl::Status& status) { return status.ok() || !status.message().empty(); }

/// Parses `text` as a file in TOML, and as flags, one per line. False: it is refused without a
/// message.
inline bool ConfigHolds(const std::string& text) {
  const auto file = ParseConfigFile(text, "uroced.toml");
  if (!IsSaid(file.status())) return false;
  if (file.ok() && !IsSaid(MakeConfig(*file, "/s").status())) return false;
  const std::vector<std::string> flags = absl::StrSplit(text, '\n');
  const auto line = ParseCommandLine(flags);
  return IsSaid(line.status()) && (!line.ok() || IsSaid(MakeConfig(line->settings, "/s").status()));
}

}  // namespace uroce::nic
