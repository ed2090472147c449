// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/daemon.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/client/control_client.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

// ---- Its socket, version, devices and memory regions ----

namespace {

constexpr uint32_t kLargestPathMtu = 4096;
constexpr uint32_t kMtuAbovePathMtu = 104;  // Headers, rounded up to 4200 for 4096.

/// The largest path MTU that the frames of a driver can carry, whatever the interface's MTU is.
uint32_t LargestPathMtu(const std::string& driver) {
  if (driver == "net_af_xdp") return 2048;
  return driver == "net_tap" ? 1024 : kLargestPathMtu;
}

/// Sets the errno of a connect, and the process that listens there.
void Connect(DaemonFacts& facts) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  facts.connect_errno = ENAMETOOLONG;
  if (facts.socket.size() >= sizeof(address.sun_path)) return;
  memcpy(address.sun_path, facts.socket.data(), facts.socket.size());
  const Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    facts.connect_errno = errno;
    return;
  }
  facts.connect_errno = 0;
  facts.pid = PeerPid(socket.get());
}

/// The words behind the program's name on its command line.
std::vector<std::string> FlagsOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"));
  std::string line{std::istreambuf_iterator<char>(file), {}};
  if (!line.empty()) line.pop_back();
  std::vector<std::string> words = absl::StrSplit(line, '\0');
  words.erase(words.begin());
  return words;
}

std::vector<pid_t> PidsOf(const Json& dump) {
  std::set<pid_t> pids;
  for (const auto& [name, list] : dump.items()) {
    for (const Json& object : list) {
      if (object.is_object() && object.contains("pid") && object["pid"].is_number_integer()) {
        pids.insert(object["pid"].get<pid_t>());
      }
    }
  }
  return {pids.begin(), pids.end()};
}

template <typename Value>
Value Member(const Json& object, const char* name, Value fallback) {
  const auto found = object.find(name);
  if (found == object.end()) return fallback;
  if constexpr (std::is_same_v<Value, std::string>) {
    return found->is_string() ? found->get<Value>() : fallback;
  } else {
    return found->is_number() ? found->get<Value>() : fallback;
  }
}

DaemonDevice DaemonDeviceOf(const Json& json) {
  DaemonDevice device;
  device.name = Member(json, "name", std::string());
  device.driver = Member(json, "driver", std::string());
  device.interface = Member(json, "interface", std::string());
  device.interface_exists =
      device.interface.empty() || if_nametoindex(device.interface.c_str()) != 0;
  device.link_up = Member(json, "link", std::string()) == "up";
  device.mtu_bytes = Member(json, "mtu", uint32_t{0});
  device.active_mtu = Member(json, "active_mtu", uint32_t{0});
  const auto drops_early = json.find("kernel_drops_early");
  device.drops_early = drops_early != json.end() && *drops_early == true;
  const auto addresses = json.find("addresses");
  if (addresses == json.end() || !addresses->is_array()) return device;
  for (const Json& address : *addresses) {
    if (address.is_string()) device.addresses.push_back(address.get<std::string>());
  }
  return device;
}

std::set<std::string> KernelAddresses() {
  std::set<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const size_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(each->ifa_addr, static_cast<socklen_t>(length), text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.insert(text);
    }
  }
  freeifaddrs(list);
  return addresses;
}

std::string Quoted(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char letter) {
    return absl::ascii_isalnum(static_cast<unsigned char>(letter)) ||
           absl::StrContains("-_=,./:+@%", letter);
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

/// Starts it again with the flags that it has, and with more.
std::string StartCommand(const DaemonFacts& facts, const std::string& uroced,
                         const char* more = "") {
  std::string flags;
  for (const std::string& word : facts.flags) absl::StrAppend(&flags, " ", Quoted(word));
  const std::string start = absl::StrCat("sudo ", uroced, flags, more, " &");
  return facts.pid == 0 ? start : absl::StrCat("sudo kill ", facts.pid, " && ", start);
}

Finding Unreachable(const DaemonFacts& facts, const std::string& uroced) {
  const std::string& path = facts.socket;
  const std::string place = path == UROCE_DEFAULT_SOCKET ? "" : absl::StrCat(" --socket ", path);
  const std::string start = absl::StrCat("sudo ", uroced, place, " &");
  switch (facts.connect_errno) {
    case ENOENT:
      return {Level::kProblem, "daemon", absl::StrCat("none runs: ", path, " does not exist"),
              start};
    case ECONNREFUSED:
      return {Level::kProblem, "daemon",
              absl::StrCat("none runs: ", path, " was left behind by one that died"), start};
    case EACCES:
    case EPERM:
      return {Level::kProblem, "daemon", absl::StrCat(path, ": this user may not connect"),
              absl::StrCat("sudo chmod 0666 ", path, " && sudo chmod 0755 ",
                           path.substr(0, path.rfind('/')))};
    case EPROTOTYPE:
      return {Level::kProblem, "daemon", absl::StrCat(path, " is not a socket of uroced"),
              absl::StrCat("export UROCE_SOCKET=", UROCE_DEFAULT_SOCKET)};
    default:
      return {Level::kProblem, "daemon", absl::StrCat(path, ": ", strerror(facts.connect_errno)),
              start};
  }
}

Finding CheckVersion(const DaemonFacts& facts, const std::string& uroced) {
  const std::string restart = StartCommand(facts, uroced);
  if (facts.is_stopped) {
    return {Level::kProblem, "daemon",
            absl::StrCat("it is stopped, by SIGSTOP or a debugger (pid ", facts.pid, ")"),
            absl::StrCat("sudo kill -CONT ", facts.pid)};
  }
  if (!facts.dump_error.empty()) {
    return {Level::kProblem, "daemon", "it does not say what it has: " + facts.dump_error, restart};
  }
  if (facts.abi_version != UROCE_ABI_VERSION || facts.version != UROCE_VERSION) {
    const bool fits = facts.abi_version == UROCE_ABI_VERSION;
    return {fits ? Level::kNote : Level::kProblem, "daemon",
            absl::StrCat("it is release ", facts.version.empty() ? "unknown" : facts.version,
                         ", protocol ", facts.abi_version, "; this is ", UROCE_VERSION,
                         ", protocol ", UROCE_ABI_VERSION),
            restart};
  }
  return {Level::kOk, "daemon",
          absl::StrCat("release ", facts.version, " at ", facts.socket, " (pid ", facts.pid, ")"),
          ""};
}

Finding DeviceFinding(const DaemonDevice& device) {
  const std::string interface = device.interface.empty() ? "the port" : device.interface;
  const uint32_t largest = LargestPathMtu(device.driver);
  const uint32_t wanted = largest + kMtuAbovePathMtu;
  const std::string set_mtu =
      device.interface.empty()
          ? absl::StrCat("uroced --port name=", device.name, ",mtu=", wanted, ",...")
          : absl::StrCat("sudo ip link set dev ", interface, " mtu ", wanted);
  if (!device.interface_exists) {
    return {
        Level::kProblem, "devices",
        absl::StrCat(device.name, ": there is no interface ", interface,
                     " here; the NIC takes the next one of this name, or uroced runs in another "
                     "network namespace"),
        "ip -brief link show"};
  }
  if (!device.link_up) {
    return {
        Level::kProblem, "devices",
        absl::StrCat(device.name, ": the link of ", interface, " is down"),
        device.interface.empty() ? "" : absl::StrCat("sudo ip link set dev ", interface, " up")};
  }
  if (device.active_mtu == 0) {
    return {Level::kProblem, "devices",
            absl::StrCat(device.name, ": MTU ", device.mtu_bytes, " is too small for RoCE"),
            set_mtu};
  }
  if (device.addresses.empty()) {
    return {Level::kProblem, "devices",
            absl::StrCat(device.name, ": has no IP address, hence no GID that programs can use"),
            device.interface.empty()
                ? absl::StrCat("uroced --port name=", device.name, ",ip=192.0.2.1/24,...")
                : absl::StrCat("sudo ip addr add 192.0.2.1/24 dev ", interface)};
  }
  const std::string text = absl::StrCat(device.name, ": MTU ", device.mtu_bytes,
                                        ", RoCE packets of ", device.active_mtu, " bytes");
  if (device.active_mtu < largest) {
    return {Level::kNote, "devices", absl::StrCat(text, "; an MTU of ", wanted, " gives ", largest),
            set_mtu};
  }
  if (device.driver == "net_iface" && !device.drops_early) {
    return {Level::kOk, "devices",
            absl::StrCat(text,
                         "; the kernel's IP looks at each before it drops it: Linux 6.6, and "
                         "CAP_BPF when uroced starts, save that work"),
            ""};
  }
  return {Level::kOk, "devices", text, ""};
}

/// One finding for all wires.
std::optional<Finding> CheckWireAddresses(const DaemonFacts& facts, const std::string& uroced) {
  for (const DaemonDevice& device : facts.devices) {
    if (device.driver != "wire") continue;
    for (const std::string& address : device.addresses) {
      const std::string bare = address.substr(0, address.find('/'));
      if (facts.kernel_addresses.contains(bare)) continue;
      return Finding{Level::kNote, "devices",
                     absl::StrCat(device.name, ": the kernel does not know ", bare,
                                  "; programs that also open TCP connections there need it"),
                     StartCommand(facts, uroced, " --wire-interfaces")};
    }
  }
  return std::nullopt;
}

/// Bytes of a region that are copied because it has too many parts.
uint64_t CutBytes(const Json& region) {
  uint64_t bytes = 0;
  const auto parts = region.find("segments");
  if (parts == region.end() || !parts->is_array()) return 0;
  for (const Json& part : *parts) {
    if (!part.is_object()) continue;
    const bool is_cut = Member(part, "reason", std::string()) == "too many parts";
    if (is_cut) bytes += Member(part, "length", uint64_t{0});
  }
  return bytes;
}

Finding CheckRegion(const CutRegion& region) {
  return {Level::kNote, "memory",
          absl::StrCat(region.program, " (pid ", region.pid, "): ", region.copied_bytes,
                       " bytes of a memory region are copied on every access; it consists of more "
                       "than ",
                       UROCE_MAX_MR_PARTS, " mappings (larger huge pages make fewer)"),
          ""};
}

/// Round trips below this one, or below so many times the shortest one, are no reason to look.
constexpr uint64_t kLongRoundTripUs = 1000;
constexpr uint64_t kTimesTheShortest = 10;
constexpr uint32_t kSmallWindow = 16;  // DelayWindow::kByLosses

bool IsStarved(const StarvedFlow& flow) {
  return flow.window_packets <= kSmallWindow && flow.round_trip_us >= kLongRoundTripUs &&
         flow.round_trip_us >= kTimesTheShortest * flow.shortest_us;
}

Finding CheckFlow(const StarvedFlow& flow) {
  return {
      Level::kNote, "congestion",
      absl::StrCat(flow.program, " (pid ", flow.pid, ") to ", flow.remote, ": round trips take ",
                   flow.round_trip_us, " us, and ", flow.shortest_us,
                   " us at best, so cc=delay has ", flow.window_packets,
                   " packets in flight; if the peer's threads wait for a CPU, and no switch for "
                   "a queue, another profile is faster for new connections"),
      absl::StrCat("uroce cc set ", flow.device, " profile=dcqcn")};
}

}  // namespace

void ParseRegions(const std::string& json, DaemonFacts& facts) {
  const Json dump = ParseDump(json).value_or(Json());
  if (!dump.is_object() || !dump.contains("mrs") || !dump["mrs"].is_array()) return;
  facts.program_pids = PidsOf(dump);
  for (const Json& region : dump["mrs"]) {
    const uint64_t bytes = region.is_object() ? CutBytes(region) : 0;
    if (bytes == 0) continue;
    facts.cut_regions.push_back(
        {Member(region, "program", std::string("?")), Member(region, "pid", pid_t{0}), bytes});
  }
}

void ParseFlows(const std::string& json, DaemonFacts& facts) {
  const Json dump = ParseDump(json).value_or(Json());
  if (!dump.is_object() || !dump.contains("flows") || !dump["flows"].is_array()) return;
  for (const Json& flow : dump["flows"]) {
    if (!flow.is_object() || !flow.contains("round_trip_us")) continue;
    const StarvedFlow found{.program = Member(flow, "program", std::string("?")),
                            .pid = Member(flow, "pid", pid_t{0}),
                            .device = Member(flow, "device", std::string("?")),
                            .remote = Member(flow, "remote", std::string("?")),
                            .window_packets = Member(flow, "window_packets", uint32_t{0}),
                            .round_trip_us = Member(flow, "round_trip_us", uint64_t{0}),
                            .shortest_us = Member(flow, "shortest_us", uint64_t{0})};
    if (IsStarved(found)) facts.starved_flows.push_back(found);
  }
}

bool ParseDevices(const std::string& json, DaemonFacts& facts) {
  const Json dump = ParseDump(json).value_or(Json());
  if (!dump.is_object() || !dump.contains("devices") || !dump["devices"].is_array()) return false;
  for (const Json& device : dump["devices"]) {
    if (device.is_object()) facts.devices.push_back(DaemonDeviceOf(device));
  }
  const auto daemon = dump.find("daemon");
  if (daemon == dump.end() || !daemon->is_object()) return true;
  facts.version = Member(*daemon, "version", std::string());
  facts.abi_version = Member(*daemon, "abi_version", uint32_t{0});
  return true;
}

DaemonFacts ReadDaemon(const std::string& socket_path) {
  DaemonFacts facts{.socket = socket_path};
  Connect(facts);
  if (facts.connect_errno != 0) return facts;
  facts.flags = FlagsOf(facts.pid);
  facts.is_stopped = IsStopped(facts.pid);
  if (facts.is_stopped) return facts;
  const absl::StatusOr<std::string> devices = FetchDump(socket_path, UROCE_DUMP_DEVICES);
  if (!devices.ok()) {
    facts.dump_error = std::string(devices.status().message());
  } else if (!ParseDevices(*devices, facts)) {
    facts.dump_error = "its dump is of another kind";
  }
  facts.kernel_addresses = KernelAddresses();  // A daemon that answers has made its interfaces.
  const absl::StatusOr<std::string> regions = FetchDump(socket_path, UROCE_DUMP_MR);
  if (regions.ok()) ParseRegions(*regions, facts);
  const absl::StatusOr<std::string> flows = FetchDump(socket_path, UROCE_DUMP_CC);
  if (flows.ok()) ParseFlows(*flows, facts);
  return facts;
}

Findings CheckDaemon(const DaemonFacts& facts, const std::string& uroced) {
  if (facts.connect_errno != 0) return {Unreachable(facts, uroced)};
  Findings findings = {CheckVersion(facts, uroced)};
  for (const DaemonDevice& device : facts.devices) findings.push_back(DeviceFinding(device));
  if (auto finding = CheckWireAddresses(facts, uroced)) findings.push_back(*std::move(finding));
  for (const CutRegion& region : facts.cut_regions) findings.push_back(CheckRegion(region));
  for (const StarvedFlow& flow : facts.starved_flows) findings.push_back(CheckFlow(flow));
  return findings;
}

// ---- The CPUs that the daemon's workers get ----

namespace {

// Less is usual where other programs run now and then.
constexpr uint64_t kMuchWaitMs = 1000;
constexpr double kMuchShare = 0.1;

double WaitShare(const WorkerShare& worker) {
  const auto ready = static_cast<double>(worker.cpu_ms + worker.cpu_wait_ms);
  return ready == 0 ? 0 : static_cast<double>(worker.cpu_wait_ms) / ready;
}

Finding CheckWorker(const WorkerShare& worker, const ContentionFacts& facts) {
  const double waited_s = static_cast<double>(worker.cpu_wait_ms) / 1000;
  if (worker.cpu_wait_ms < kMuchWaitMs || WaitShare(worker) < kMuchShare) {
    return {Level::kOk, "cpu",
            absl::StrFormat("worker %d has waited %.1f s for a CPU, and run %.1f s", worker.worker,
                            waited_s, static_cast<double>(worker.cpu_ms) / 1000),
            ""};
  }
  const std::string text = absl::StrFormat(
      "worker %d had no CPU for %.1f %% of the time that it could have run: %.1f s, %d times taken "
      "from it",
      worker.worker, WaitShare(worker) * 100, waited_s, worker.involuntary_switches);
  if (facts.workers.size() > facts.processors) {
    return {Level::kNote, "cpu",
            absl::StrCat(text, "; ", facts.workers.size(), " workers share ", facts.processors,
                         " CPUs"),
            absl::StrCat("uroced --workers ", facts.processors)};
  }
  return {Level::kNote, "cpu",
          absl::StrCat(text, "; other programs use the CPUs, which it can be put before"),
          absl::StrCat("sudo renice -n -5 -p $(ls /proc/", facts.daemon, "/task)")};
}

}  // namespace

void ParseWorkers(const std::string& json, ContentionFacts& facts) {
  const Json dump = ParseDump(json).value_or(Json());
  if (!dump.is_object() || !dump.contains("workers") || !dump["workers"].is_array()) return;
  for (const Json& worker : dump["workers"]) {
    if (!worker.is_object() || !worker.contains("cpu_wait_ms")) continue;
    facts.workers.push_back({.worker = static_cast<uint32_t>(NumberOf(worker, "worker")),
                             .cpu_ms = NumberOf(worker, "cpu_ms"),
                             .cpu_wait_ms = NumberOf(worker, "cpu_wait_ms"),
                             .involuntary_switches = NumberOf(worker, "involuntary_switches")});
  }
}

ContentionFacts ReadContention(const std::string& socket_path, pid_t daemon) {
  ContentionFacts facts{.daemon = daemon, .processors = std::thread::hardware_concurrency()};
  const absl::StatusOr<std::string> dump = FetchDump(socket_path, UROCE_DUMP_STAT);
  if (dump.ok()) ParseWorkers(*dump, facts);
  return facts;
}

Findings CheckContention(const ContentionFacts& facts) {
  Findings findings;
  for (const WorkerShare& worker : facts.workers) findings.push_back(CheckWorker(worker, facts));
  return findings;
}

}  // namespace uroce::tools
