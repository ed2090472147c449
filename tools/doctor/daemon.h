// SPDX-License-Identifier: Apache-2.0
// Checks the daemon as a program meets it: its socket, its version, its devices, and the CPU that
// its workers get.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/doctor/machine.h"

namespace uroce::tools {

// ---- Its socket, version, devices and memory regions ----

struct DaemonDevice {
  std::string name;
  std::string driver;     ///< DPDK's name, "pci" or "wire".
  std::string interface;  ///< The kernel's, or "".
  bool interface_exists = true;
  bool link_up = false;
  uint32_t mtu_bytes = 0;
  uint32_t active_mtu = 0;  ///< RoCE path MTU; 0: the interface's is too small.
  /// The kernel drops RoCE packets before its IP looks at them. A driver other than net_iface says
  /// nothing by it.
  bool drops_early = false;
  std::vector<std::string> addresses;  ///< "10.0.0.1/24".
};

/// A memory region with more parts than the daemon takes: its last part is copied.
struct CutRegion {
  std::string program;
  pid_t pid = 0;
  uint64_t copied_bytes = 0;
};

/// A flow whose round trips are long, so that congestion control leaves it a small window.
struct StarvedFlow {
  std::string program;
  pid_t pid = 0;
  std::string device;
  std::string remote;  ///< The peer's address.
  uint32_t window_packets = 0;
  uint64_t round_trip_us = 0;
  uint64_t shortest_us = 0;
};

struct DaemonFacts {
  std::string socket;              ///< Its path.
  int connect_errno = 0;           ///< 0: a process answers.
  std::string dump_error;          ///< Why the dump of devices failed; "" on success.
  pid_t pid = 0;                   ///< Of the process that listens.
  bool is_stopped = false;         ///< It answers nothing, so nothing below is known.
  std::vector<std::string> flags;  ///< Of its command line.
  std::string version;             ///< "" when it tells none.
  uint32_t abi_version = 0;        ///< Of the protocol of programs; 0: it tells none.
  std::vector<DaemonDevice> devices;
  std::vector<pid_t> program_pids;  ///< Programs with memory regions.
  std::vector<CutRegion> cut_regions;
  std::vector<StarvedFlow> starved_flows;
  std::set<std::string> kernel_addresses;  ///< Of this network namespace's interfaces: "10.0.0.1".
};

/// Connects to the daemon, and asks for devices, memory regions and flows.
DaemonFacts ReadDaemon(const std::string& socket_path);

/// Fills `facts` from a dump of devices. False: `json` is no such dump.
bool ParseDevices(const std::string& json, DaemonFacts& facts);

/// Fills `facts` from a dump of memory regions.
void ParseRegions(const std::string& json, DaemonFacts& facts);

/// Fills `facts` from a dump of flows.
void ParseFlows(const std::string& json, DaemonFacts& facts);

/// `uroced` is the command that starts a daemon.
Findings CheckDaemon(const DaemonFacts& facts, const std::string& uroced);

// ---- The CPUs that the daemon's workers get ----

/// A worker's thread, since it began.
struct WorkerShare {
  uint32_t worker = 0;
  uint64_t cpu_ms = 0;       ///< On a CPU.
  uint64_t cpu_wait_ms = 0;  ///< Ready to run, but without a CPU.
  uint64_t involuntary_switches = 0;
};

struct ContentionFacts {
  pid_t daemon = 0;
  uint32_t processors = 0;
  std::vector<WorkerShare> workers;  ///< None: no daemon answers, or it does not tell.
};

/// Asks the daemon, whose process is `daemon`.
ContentionFacts ReadContention(const std::string& socket_path, pid_t daemon);
/// Fills `facts` from a dump of counters.
void ParseWorkers(const std::string& json, ContentionFacts& facts);
Findings CheckContention(const ContentionFacts& facts);

}  // namespace uroce::tools
