// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/dpdk_device.h"

#include <linux/capability.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/eal.h"
#include "drivers/kernel/kernel_interface.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::drivers {

// ---- checks ----

namespace {

/// What a slot of a packet ring holds beside the Ethernet payload: the ring's header, the address,
/// padding, and the Ethernet header.
constexpr uint32_t kPacketRingOverhead = 128 + 18;

absl::Status Named(const DeviceArguments& arguments, absl::string_view key,
                   const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("dev \"", arguments.name, "\": ", key, "=", status.message()));
}

absl::Status CheckDriverMtu(const DeviceArguments& arguments) {
  const uint32_t limit = arguments.rules().mtu_limit;
  const std::string interface = arguments.Interface();
  const absl::StatusOr<InterfaceState> state = ReadInterface(interface);
  if (limit == 0 || !state.ok() || state->mtu_bytes <= limit) return absl::OkStatus();
  return BadArguments(
      arguments, absl::StrCat("iface=", interface, " has the MTU ", state->mtu_bytes, ", and ",
                              arguments.driver, " works up to ", limit, "; ip link set ", interface,
                              " mtu ", limit));
}

absl::Status CheckSharedInterface(const DeviceArguments& arguments, const PortOptions& options) {
  constexpr Need kRaw = {CAP_NET_RAW, "CAP_NET_RAW"};
  constexpr Need kAdmin = {CAP_NET_ADMIN, "CAP_NET_ADMIN"};
  constexpr Need kBpf = {CAP_BPF, "CAP_BPF"};
  const bool is_xdp = arguments.rules().wake_up == WakeUp::kXdpSocket;
  absl::Status status =
      is_xdp ? CheckInterface(arguments.name, arguments.Interface(), options, {kRaw, kAdmin, kBpf})
             : CheckInterface(arguments.name, arguments.Interface(), options, {kRaw});
  return status.ok() ? CheckDriverMtu(arguments) : status;
}

absl::Status CheckVhost(const DeviceArguments& arguments) {
  if (arguments.Value("client") == "1") return absl::OkStatus();
  return Named(arguments, "iface", PrepareServerPath(arguments.Value("iface")));
}

absl::Status CheckVirtioUser(const DeviceArguments& arguments) {
  const std::string path = arguments.Value("path");
  if (absl::StartsWith(path, "/dev/")) return absl::OkStatus();
  return Named(arguments, "path", CheckServerListens(path));
}

absl::Status CheckTap(const DeviceArguments& arguments) {
  constexpr char kDevice[] = "/dev/net/tun";
  const std::string interface = arguments.Value("iface");
  if (access(kDevice, R_OK | W_OK) != 0) {
    return BadArguments(arguments,
                        absl::StrCat(kDevice, ": ", std::strerror(errno), "; modprobe tun"));
  }
  if (ReadInterface(interface).ok()) {
    return BadArguments(
        arguments,
        absl::StrCat("iface=", interface, ": there is such an interface; the TAP is made again"));
  }
  if (interface.size() >= IFNAMSIZ) {
    return BadArguments(arguments,
                        absl::StrCat("iface=", interface, " is longer than ", IFNAMSIZ - 1));
  }
  return CheckRights(arguments.name, absl::StrCat("iface=", interface),
                     {{CAP_NET_ADMIN, "CAP_NET_ADMIN"}});
}

/// The worker reads and writes these files, so files that could make it block are refused.
absl::Status CheckFile(const DeviceArguments& arguments, absl::string_view key, int access_mode) {
  const std::string* path = arguments.Find(key);
  if (path == nullptr) return absl::OkStatus();
  struct stat status {};
  const bool exists = stat(path->c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    return BadArguments(arguments, absl::StrCat(key, "=", *path, ": is no file"));
  }
  const std::filesystem::path parent = std::filesystem::path(*path).parent_path();
  const std::string directory = parent.empty() ? std::string(1, '.') : parent.string();
  const bool makes_it = !exists && access_mode == W_OK;
  if (access(makes_it ? directory.c_str() : path->c_str(), access_mode) == 0) {
    return absl::OkStatus();
  }
  return BadArguments(arguments, absl::StrCat(key, "=", *path, ": ", std::strerror(errno)));
}

absl::Status CheckFiles(const DeviceArguments& arguments) {
  const absl::Status status = CheckFile(arguments, "rx_pcap", R_OK);
  return status.ok() ? CheckFile(arguments, "tx_pcap", W_OK) : status;
}

}  // namespace

uint32_t MtuLimit(const DeviceArguments& arguments) {
  uint32_t frame_bytes = 0;
  if (arguments.driver != "net_af_packet") return arguments.rules().mtu_limit;
  if (!absl::SimpleAtoi(arguments.Value("framesz"), &frame_bytes)) return 0;
  return frame_bytes > kPacketRingOverhead ? frame_bytes - kPacketRingOverhead : 1;
}

absl::Status CheckDevice(const DeviceArguments& arguments, const PortOptions& options) {
  const uint32_t limit = MtuLimit(arguments);
  if (limit != 0 && options.mtu_bytes > limit) {
    return BadArguments(arguments,
                        absl::StrCat("mtu=", options.mtu_bytes, " is more than the ", limit,
                                     " bytes that ", arguments.driver, " carries"));
  }
  if (absl::Status status = CheckFiles(arguments); !status.ok()) return status;
  if (!arguments.Interface().empty()) return CheckSharedInterface(arguments, options);
  if (arguments.driver == "net_tap") return CheckTap(arguments);
  if (arguments.driver == "net_vhost") return CheckVhost(arguments);
  if (arguments.driver == "net_virtio_user") return CheckVirtioUser(arguments);
  return absl::OkStatus();
}

// ---- opening ----

namespace {

constexpr uint16_t kDescriptors = 1024;

/// One attempt to open a device, with or without receive interrupts.
class Attempt {
 public:
  Attempt(const DeviceArguments& arguments, const PortOptions& options, uint16_t port_id)
      : arguments_(arguments), options_(options), port_id_(port_id) {}

  absl::Status Check();
  absl::StatusOr<StartedDevice> Start(bool interrupts, rte_mempool* pool);

 private:
  absl::Status Error(absl::string_view step, int error) const;
  absl::Status Refusal(absl::string_view why) const;
  rte_eth_conf Configuration(bool interrupts) const;
  absl::Status SetUpQueues(rte_mempool* pool);
  absl::Status SetMac();
  uint16_t transmit_queues() const {
    const uint16_t driven = std::min(options_.queues, options_.workers);
    return arguments_.rules().pairs_queues ? options_.queues : driven;
  }

  const DeviceArguments& arguments_;
  const PortOptions& options_;
  const uint16_t port_id_;
  rte_eth_dev_info info_{};
};

absl::Status Attempt::Error(absl::string_view step, int error) const {
  return absl::InternalError(absl::StrCat("dev \"", arguments_.name, "\": ", step, ": ",
                                          std::strerror(error < 0 ? -error : error)));
}

absl::Status Attempt::Refusal(absl::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat("dev \"", arguments_.name, "\": ", why));
}

/// Reports what DPDK would only write to its own log.
absl::Status Attempt::Check() {
  const int error = rte_eth_dev_info_get(port_id_, &info_);
  if (error != 0) return Error("information", error);
  if (options_.queues > std::min(info_.max_rx_queues, info_.max_tx_queues)) {
    return Refusal(absl::StrCat("queues=", options_.queues, " is more than the ",
                                info_.max_rx_queues, " of this device"));
  }
  const bool limited = arguments_.rules().sets_mtu && info_.max_mtu != 0;
  if (limited && options_.mtu_bytes > info_.max_mtu) {
    return Refusal(absl::StrCat("mtu=", options_.mtu_bytes, " is more than the ", info_.max_mtu,
                                " bytes of this device"));
  }
  return absl::OkStatus();
}

/// MTU 0 leaves the device's own limit unchanged: memif, af_packet and tap advertise 1518 bytes and
/// refuse more, and yet carry longer frames. RSS spreads frames by addresses and UDP ports. The
/// device is asked for nothing else that changes frames: no scattering, and one segment to send.
rte_eth_conf Attempt::Configuration(bool interrupts) const {
  rte_eth_conf conf{};
  if (arguments_.rules().sets_mtu) conf.rxmode.mtu = options_.mtu_bytes;
  conf.rxmode.offloads = info_.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
  constexpr uint64_t kHashed = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
  if (options_.queues > 1 && (info_.flow_type_rss_offloads & kHashed) != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info_.flow_type_rss_offloads & kHashed;
    conf.rxmode.offloads |= info_.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
  }
  conf.intr_conf.rxq = interrupts ? 1 : 0;
  return conf;
}

absl::Status Attempt::SetUpQueues(rte_mempool* pool) {
  const int socket = rte_eth_dev_socket_id(port_id_);
  const auto numa = static_cast<unsigned>(socket < 0 ? SOCKET_ID_ANY : socket);
  uint16_t rx_descriptors = kDescriptors;
  uint16_t tx_descriptors = kDescriptors;
  int error = rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors, &tx_descriptors);
  if (error != 0) return Error("descriptors", error);
  for (uint16_t queue = 0; queue < options_.queues; ++queue) {
    error = rte_eth_rx_queue_setup(port_id_, queue, rx_descriptors, numa, nullptr, pool);
    if (error != 0) return Error(absl::StrCat("receive queue ", queue), error);
  }
  for (uint16_t queue = 0; queue < transmit_queues(); ++queue) {
    error = rte_eth_tx_queue_setup(port_id_, queue, tx_descriptors, numa, nullptr);
    if (error != 0) return Error(absl::StrCat("transmit queue ", queue), error);
  }
  return absl::OkStatus();
}

/// A NIC takes only frames for its own address; virtual devices take all frames.
absl::Status Attempt::SetMac() {
  if (!arguments_.IsPci() || !arguments_.mac.has_value()) return absl::OkStatus();
  rte_ether_addr mac{};
  std::memcpy(mac.addr_bytes, arguments_.mac->data(), sizeof(mac.addr_bytes));
  const int error = rte_eth_dev_default_mac_addr_set(port_id_, &mac);
  return error == 0 ? absl::OkStatus() : Error("mac", error);
}

absl::StatusOr<StartedDevice> Attempt::Start(bool interrupts, rte_mempool* pool) {
  const rte_eth_conf conf = Configuration(interrupts);
  int error = rte_eth_dev_configure(port_id_, options_.queues, transmit_queues(), &conf);
  if (error != 0) return Error("configure", error);
  if (absl::Status status = SetUpQueues(pool); !status.ok()) return status;
  if (absl::Status status = SetMac(); !status.ok()) return status;
  error = rte_eth_dev_start(port_id_);
  if (error != 0) return Error("start", error);
  if (options_.flow_control) {
    absl::Status status = WriteFlowControl(arguments_, port_id_, *options_.flow_control);
    if (!status.ok()) return status;
  }
  // Neighbour solicitations and multicast packets come to many MACs. Devices that cannot be
  // configured let all of them through, or have a kernel interface whose filter the kernel sets.
  static_cast<void>(rte_eth_allmulticast_enable(port_id_));
  return StartedDevice{
      .port_id = port_id_,
      .queues = options_.queues,
      .has_interrupts = interrupts,
      .checks_ip_header = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0};
}

/// Whether each queue has an fd, and its interrupt can be switched on and off.
bool InterruptsWork(const StartedDevice& device) {
  for (uint16_t queue = 0; queue < device.queues; ++queue) {
    if (rte_eth_dev_rx_intr_ctl_q_get_fd(device.port_id, queue) < 0) return false;
    if (rte_eth_dev_rx_intr_enable(device.port_id, queue) != 0) return false;
    rte_eth_dev_rx_intr_disable(device.port_id, queue);
  }
  return true;
}

bool WantsInterrupts(const DeviceArguments& arguments) {
  if (arguments.rules().wake_up != WakeUp::kInterrupt) return false;
  return !arguments.IsPci() || HasQueueInterrupts(ReadPciDevice(arguments.name));
}

absl::StatusOr<StartedDevice> StartDevice(const DeviceArguments& arguments,
                                          const PortOptions& options, uint16_t port_id,
                                          rte_mempool* pool) {
  Attempt attempt(arguments, options, port_id);
  if (absl::Status status = attempt.Check(); !status.ok()) return status;
  if (WantsInterrupts(arguments)) {
    absl::StatusOr<StartedDevice> device = attempt.Start(true, pool);
    if (device.ok() && InterruptsWork(*device)) return device;
    // A legacy interrupt, or a bus without any: the worker then wakes by timer.
    rte_eth_dev_stop(port_id);
  }
  return attempt.Start(false, pool);
}

/// From here on the device has an owner, so that no second port opens it.
bool Claim(uint16_t port_id) {
  static const uint64_t us = [] {
    uint64_t id = RTE_ETH_DEV_NO_OWNER;
    rte_eth_dev_owner_new(&id);
    return id;
  }();
  const rte_eth_dev_owner owner{.id = us, .name = "uroce"};
  return rte_eth_dev_owner_set(port_id, &owner) == 0;
}

/// What may prevent DPDK from opening a device, or "".
std::string GuessWhy(const DeviceArguments& arguments, const PortOptions& options, int reason) {
  // What DPDK says of a virtual device whose name no driver has.
  if (reason == EFAULT) return absl::StrCat("; no driver here is called ", arguments.driver);
  if (options.queues > 1) return absl::StrCat("; queues=", options.queues, " may be too many");
  rlimit locked{};
  if (arguments.rules().wake_up != WakeUp::kPacketSocket || geteuid() == 0) return "";
  if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur == RLIM_INFINITY) return "";
  return absl::StrCat("; its rings are locked in memory, and ulimit -l allows ",
                      locked.rlim_cur >> 10, " KB");
}

absl::StatusOr<uint16_t> Attach(const DeviceArguments& arguments, const PortOptions& options) {
  uint16_t port_id = 0;
  // PCI devices that InitEal was given are probed already.
  if (rte_eth_dev_get_port_by_name(arguments.name.c_str(), &port_id) == 0) {
    if (arguments.IsPci() && Claim(port_id)) return port_id;
    return absl::AlreadyExistsError(absl::StrCat("dev \"", arguments.name, "\": used twice"));
  }
  const int error = rte_dev_probe(arguments.ToDpdk().c_str());
  if (rte_eth_dev_get_port_by_name(arguments.name.c_str(), &port_id) == 0) return port_id;
  const int reason = error == 0 ? ENODEV : std::abs(error);
  return absl::InternalError(absl::StrCat("dev \"", arguments.ToDpdk(),
                                          "\": DPDK cannot open it: ", std::strerror(reason),
                                          GuessWhy(arguments, options, reason)));
}

}  // namespace

absl::StatusOr<StartedDevice> OpenDevice(const DeviceArguments& arguments,
                                         const PortOptions& options, rte_mempool* pool) {
  DeviceArguments complete = arguments;
  const absl::string_view queues_key = arguments.rules().queues_key;
  if (!queues_key.empty()) complete.AddDefault(queues_key, absl::StrCat(options.queues));
  const WakeUp wake_up = arguments.rules().wake_up;
  const std::vector<int> fds_before = FdsOf(wake_up);
  const absl::StatusOr<uint16_t> port_id = Attach(complete, options);
  if (!port_id.ok()) return port_id.status();
  absl::StatusOr<StartedDevice> device = StartDevice(complete, options, *port_id, pool);
  if (device.ok()) {
    device->fds = FdsSince(wake_up, fds_before);
  } else {
    CloseDevice({.port_id = *port_id});
  }
  return device;
}

void CloseDevice(const StartedDevice& device) {
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(device.port_id, &info) == 0;
  rte_eth_dev_stop(device.port_id);
  rte_eth_dev_close(device.port_id);
  if (known && info.device != nullptr) rte_dev_remove(info.device);
}

namespace {

namespace fs = std::filesystem;

bool IsSocketOf(int fd, int family) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == family;
}

bool IsTapQueue(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error) == "/dev/net/tun";
}

bool IsOf(WakeUp kind, int fd, const fs::path& link) {
  switch (kind) {
    case WakeUp::kPacketSocket:
      return IsSocketOf(fd, AF_PACKET);
    case WakeUp::kXdpSocket:
      return IsSocketOf(fd, AF_XDP);
    case WakeUp::kTapQueue:
      return IsTapQueue(link);
    case WakeUp::kTimer:
    case WakeUp::kInterrupt:
      return false;
  }
  return false;
}

}  // namespace

std::vector<int> FdsOf(WakeUp kind) {
  std::vector<int> fds;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
    if (IsOf(kind, fd, entry.path())) fds.push_back(fd);
  }
  std::sort(fds.begin(), fds.end());
  return fds;
}

std::vector<int> FdsSince(WakeUp kind, const std::vector<int>& before) {
  const std::vector<int> now = FdsOf(kind);
  std::vector<int> since;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                      std::back_inserter(since));
  return since;
}

namespace {

/// In the order of FlowControl.
constexpr std::array kModes = {RTE_ETH_FC_NONE, RTE_ETH_FC_RX_PAUSE, RTE_ETH_FC_TX_PAUSE,
                               RTE_ETH_FC_FULL};

}  // namespace

std::optional<FlowControl> ReadFlowControl(uint16_t port_id) {
  rte_eth_fc_conf conf{};
  if (rte_eth_dev_flow_ctrl_get(port_id, &conf) != 0) return std::nullopt;
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (kModes[i] == conf.mode) return static_cast<FlowControl>(i);
  }
  return std::nullopt;
}

absl::Status WriteFlowControl(const DeviceArguments& arguments, uint16_t port_id,
                              FlowControl flow_control) {
  rte_eth_fc_conf conf{};
  int error = rte_eth_dev_flow_ctrl_get(port_id, &conf);
  conf.mode = kModes[static_cast<size_t>(flow_control)];
  if (error == 0) error = rte_eth_dev_flow_ctrl_set(port_id, &conf);
  if (error == 0) return absl::OkStatus();
  const std::string what =
      absl::StrCat("dev \"", arguments.name, "\": flow-control=", NameOf(flow_control), ": ");
  if (error == -ENOTSUP || error == -ENOSYS) {
    return absl::UnimplementedError(absl::StrCat(what, "the device has none, or not this mode"));
  }
  return absl::InternalError(absl::StrCat(what, std::strerror(-error)));
}

PauseStatistic PauseStatisticOf(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const auto has = [&](absl::string_view word) { return absl::StrContains(lower, word); };
  if (!has("pause") && !has("xoff") && !has("pfc")) return PauseStatistic::kNone;
  if (has("xon") || has("duration") || has("time")) return PauseStatistic::kNone;
  if (absl::StartsWith(lower, "rx")) return PauseStatistic::kReceived;
  return absl::StartsWith(lower, "tx") ? PauseStatistic::kSent : PauseStatistic::kNone;
}

void PauseCounts::Watch(uint16_t port_id) {
  port_id_ = port_id;
  received_.clear();
  sent_.clear();
  const int count = rte_eth_xstats_get_names(port_id, nullptr, 0);
  if (count <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
  if (rte_eth_xstats_get_names(port_id, names.data(), static_cast<unsigned>(count)) != count) {
    return;
  }
  for (size_t id = 0; id < names.size(); ++id) {
    const PauseStatistic kind = PauseStatisticOf(names[id].name);
    if (kind == PauseStatistic::kReceived) received_.push_back(id);
    if (kind == PauseStatistic::kSent) sent_.push_back(id);
  }
}

void PauseCounts::Add(uint16_t port_id, const std::vector<uint64_t>& ids,
                      std::optional<uint64_t>& sum) {
  std::vector<uint64_t> values(ids.size());
  const auto count = static_cast<unsigned>(ids.size());
  if (ids.empty() || rte_eth_xstats_get_by_id(port_id, ids.data(), values.data(), count) < 0) {
    return;
  }
  for (const uint64_t value : values) sum = sum.value_or(0) + value;
}

void PauseCounts::AddTo(PortCounters& counters) const {
  Add(port_id_, received_, counters.rx_pauses);
  Add(port_id_, sent_, counters.tx_pauses);
}

}  // namespace uroce::drivers
