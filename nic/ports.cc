// SPDX-License-Identifier: Apache-2.0
#include "nic/ports.h"

#include <linux/capability.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "drivers/cable/cable_port.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_port.h"
#include "drivers/dpdk/eal.h"
#include "drivers/fault/fault_port.h"
#include "drivers/kernel/kernel_ports.h"
#include "drivers/memif/memif_port.h"
#include "drivers/switch/switch_port.h"
#include "nic/base/cpus.h"
#include "nic/base/log.h"
#include "nic/devices/nic_device.h"
#include "nic/settings/config.h"
#include "pipeline/os/credentials.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kFewestFrames = 4096;
constexpr uint32_t kMostFrames = 32768;
/// The assumed average size of buffered frames. With smaller frames their number is the limit, like
/// the number of cells in a real switch.
constexpr uint64_t kUsualFrameBytes = 1024;

uint64_t BytesOnTheWay(const fabric::LinkConfig& link) {
  return static_cast<uint64_t>(link.delay.count()) * (link.rate_bps / 1'000'000) / 8'000;
}

/// The most frames in switches and on links.
uint32_t MostFrames(const Config& config) {
  uint64_t bytes = 0;
  for (const SwitchSettings& each : config.switches) {
    bytes += each.config.buffer_bytes;
    bytes += each.ports * (2 * BytesOnTheWay(each.link) + each.link.host_queue_bytes);
    bytes += each.neighbours.size() * 2 * BytesOnTheWay(each.trunk());
  }
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / kUsualFrameBytes, kFewestFrames, kMostFrames));
}

uint32_t IndexOf(const std::string& name, const Config& config) {
  const auto found = std::ranges::find(config.switches, name, &SwitchSettings::name);
  return static_cast<uint32_t>(found - config.switches.begin());
}

/// The number of frames that may wait in switches, on links and for receivers; 0 without switches.
uint32_t FramesInNetwork(const Config& config) {
  if (config.switches.empty()) return 0;
  const auto hosts = std::ranges::count_if(
      config.devices, [](const DeviceConfig& device) { return device.at_switch() != nullptr; });
  return MostFrames(config) + static_cast<uint32_t>(hosts) * drivers::kSwitchReceiveFrames;
}

/// Makes the switches of `config`, with one host for each device attached to one, in their order.
/// Returns null without switches. `copies`: see drivers::SwitchNetwork.
std::shared_ptr<drivers::SwitchNetwork> MakeSwitchNetwork(const Config& config,
                                                          rte_mempool* copies) {
  if (config.switches.empty()) return nullptr;
  drivers::SwitchNetworkConfig network{.switches = {},
                                       .trunks = {},
                                       .nics = {},
                                       .max_frames = MostFrames(config),
                                       .queues = static_cast<uint16_t>(config.workers)};
  for (const SwitchSettings& each : config.switches) {
    const auto index = static_cast<uint32_t>(network.switches.size());
    network.switches.push_back(each.config);
    for (const std::string& neighbour : each.neighbours) {
      network.trunks.push_back({index, IndexOf(neighbour, config), each.trunk()});
    }
  }
  for (uint32_t index = 0; index < config.devices.size(); ++index) {
    const DeviceConfig& device = config.devices[index];
    if (device.at_switch() == nullptr) continue;
    const uint32_t at = device.at_switch()->switch_index;
    network.nics.push_back({.mac = drivers::LocalMac(device.name, index),
                            .mtu_bytes = device.mtu_bytes,
                            .switch_index = at,
                            .link = config.switches[at].link,
                            .device = index});
  }
  return std::make_shared<drivers::SwitchNetwork>(network, copies);
}

constexpr uint32_t kPoolFrames = 8192;
constexpr uint32_t kQueueFrames = 1024;  // Kept by each further receive queue.
constexpr uint32_t kSlackMib = 64;       // For rings and drivers.
constexpr uint32_t kSpareQueues = 4;     // For ports that are added later.

absl::Status Complain(const DeviceConfig& device, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat("--port: name=", device.name, ": ", status.message()));
}

absl::Status ComplainOfAdded(const DeviceConfig& device, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("port add: name=", device.name, ": ", status.message()));
}

struct Plan {
  drivers::EalConfig eal;
  uint32_t frame_bytes = drivers::kRoceFrameBytes;
  uint32_t frames = kPoolFrames;  // Of each pool.
  uint32_t further_queues = 0;    // Beyond the first of each port.
  uint64_t own_pool_bytes = 0;
};

/// Null for ports of other kinds.
const drivers::DeviceArguments* ArgumentsOf(const DeviceConfig& device) {
  const auto* const dpdk = std::get_if<drivers::DpdkDevice>(&device.kind);
  return dpdk == nullptr ? nullptr : &dpdk->arguments;
}

/// Whether it is a port by sockets of the kernel.
bool IsBySockets(const DeviceConfig& device) {
  return std::holds_alternative<drivers::KernelInterface>(device.kind) ||
         std::holds_alternative<drivers::UdpSocket>(device.kind);
}

const drivers::MemifConfig* MemifOf(const DeviceConfig& device) {
  return std::get_if<drivers::MemifConfig>(&device.kind);
}

/// Bytes of a frame that the mbufs of the port must hold.
uint32_t FrameBytesOf(const DeviceConfig& device) {
  if (const auto* const arguments = ArgumentsOf(device)) {
    return drivers::RequiredFrameBytes(*arguments, device.mtu_bytes);
  }
  if (const auto* const memif = MemifOf(device)) {
    return drivers::RequiredFrameBytes(*memif, device.mtu_bytes);
  }
  return drivers::RequiredFrameBytes(device.mtu_bytes);
}

// One pool serves all ports: frames pass between ports on an in-process cable.
Plan MakePlan(const Config& config) {
  Plan plan;
  plan.frames += config.limits.kept_frames;  // They return once their gap is filled.
  plan.eal.allow_hugepages = !config.no_huge;
  for (const DeviceConfig& device : config.devices) {
    if (device.is_inside()) continue;
    plan.frame_bytes = std::max(plan.frame_bytes, FrameBytesOf(device));
    plan.frames += FurtherQueues(device) * kQueueFrames;
    plan.further_queues += FurtherQueues(device);
    const drivers::DeviceArguments* const arguments = ArgumentsOf(device);
    if (arguments == nullptr) continue;
    const uint32_t own_frame_bytes = arguments->rules().own_pool_frame_bytes;
    if (own_frame_bytes != 0) {
      plan.own_pool_bytes += drivers::PoolBytes(own_frame_bytes, drivers::kOwnPoolFrames);
    }
    if (arguments->IsPci()) plan.eal.pci_devices.push_back(arguments->name);
  }
  const std::vector<int> cores = WorkerCores(config.workers, AllowedCores());
  std::set<int> nodes;
  for (const int core : cores) nodes.insert(NumaNodeOf(core));
  plan.frames *= config.workers;
  plan.frames += FramesInNetwork(config);
  const uint64_t pool_mib =
      (drivers::PoolBytes(plan.frame_bytes, plan.frames) * nodes.size() + plan.own_pool_bytes) >>
      20;
  plan.eal.memory_mib = static_cast<uint32_t>(pool_mib) + kSlackMib;
  return plan;
}

drivers::CableEndConfig EndOf(const DeviceConfig& device, uint32_t index) {
  drivers::CableEndConfig end;
  end.mac = drivers::LocalMac(device.name, index);
  if (device.mtu_bytes != 0) end.mtu_bytes = device.mtu_bytes;
  return end;
}

absl::Status AddCable(const drivers::CableEndConfig& first, const drivers::CableEndConfig& second,
                      uint32_t workers, std::vector<std::unique_ptr<drivers::Port>>& ports) {
  absl::StatusOr<drivers::Cable> cable =
      drivers::MakeCable(first, second, {.queues = static_cast<uint16_t>(workers)});
  if (!cable.ok()) return cable.status();
  ports.push_back(std::move(cable->first));
  ports.push_back(std::move(cable->second));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<drivers::Port>> OpenWithQueues(const DeviceConfig& device,
                                                              uint32_t queues, uint32_t workers,
                                                              rte_mempool* pool) {
  const drivers::PortOptions options{.mtu_bytes = device.mtu_bytes,
                                     .queues = static_cast<uint16_t>(queues),
                                     .workers = static_cast<uint16_t>(workers),
                                     .flow_control = device.flow_control,
                                     .takes_all_frames = device.own_host};
  return std::visit(
      [&](const auto& kind) -> absl::StatusOr<std::unique_ptr<drivers::Port>> {
        if constexpr (requires { drivers::OpenPort(kind, options, pool); }) {
          return drivers::OpenPort(kind, options, pool);
        } else {
          return absl::InternalError("the port is emulated");
        }
      },
      device.kind);
}

/// Opens a port that is not emulated. The kernel of a sandbox may have no sockets that share what
/// arrives: a port that is not told its number of queues has one there.
absl::StatusOr<std::unique_ptr<drivers::Port>> OpenPort(const DeviceConfig& device,
                                                        uint32_t workers, rte_mempool* pool) {
  const uint32_t queues = QueuesOf(device, workers);
  auto port = OpenWithQueues(device, queues, workers, pool);
  if (port.ok() || device.queues != 0 || queues == 1) return port;
  return OpenWithQueues(device, 1, workers, pool);
}

absl::StatusOr<std::vector<std::unique_ptr<drivers::Port>>> OpenAll(
    const Config& config, const std::vector<datapath::WorkerSeat>& seats,
    const std::shared_ptr<drivers::SwitchNetwork>& network) {
  std::vector<std::unique_ptr<drivers::Port>> ports;
  uint32_t switch_ports = 0;
  while (ports.size() < config.devices.size()) {
    const auto index = static_cast<uint32_t>(ports.size());
    const DeviceConfig& device = config.devices[index];
    if (device.cable()) {  // The two ends of a cable are adjacent.
      const absl::Status status = AddCable(
          EndOf(device, index), EndOf(config.devices[index + 1], index + 1), config.workers, ports);
      if (!status.ok()) return status;
      continue;
    }
    if (device.at_switch()) {
      ports.push_back(std::make_unique<drivers::SwitchPort>(network, switch_ports++));
      continue;
    }
    rte_mempool* const pool = seats[index % seats.size()].pool;  // Of its first queue's worker.
    absl::StatusOr<std::unique_ptr<drivers::Port>> port = OpenPort(device, config.workers, pool);
    if (!port.ok()) return Complain(device, port.status());
    ports.push_back(*std::move(port));
  }
  return ports;
}

/// Every port can inject faults: they may change while the daemon runs.
std::unique_ptr<NicDevice> MakeDevice(const DeviceConfig& config, uint32_t index,
                                      std::unique_ptr<drivers::Port> port,
                                      const std::vector<datapath::WorkerSeat>& seats) {
  const auto workers = static_cast<uint32_t>(seats.size());
  auto faulty = std::make_unique<drivers::FaultPort>(std::move(port), config.fault,
                                                     seats[index % workers].pool);
  drivers::FaultPort* const fault = faulty.get();
  auto device = std::make_unique<NicDevice>(config, index, std::move(faulty), workers, fault);
  device->datapath().leaves_icrc_out = config.is_inside() && !config.always_icrc;
  return device;
}

// The workers of a NUMA node share a pool. It has room for the frames of all workers, because
// frames may wait at other workers than the one that received them.
absl::StatusOr<std::vector<datapath::WorkerSeat>> MakeSeats(const Config& config,
                                                            const Plan& plan) {
  std::vector<datapath::WorkerSeat> seats;
  std::map<int, rte_mempool*> pools;
  for (const int core : WorkerCores(config.workers, AllowedCores())) {
    rte_mempool*& pool = pools[NumaNodeOf(core)];
    if (pool == nullptr) {
      const auto made = drivers::MakePool(absl::StrCat("uroce_frames", pools.size()),
                                          plan.frame_bytes, plan.frames, NumaNodeOf(core));
      if (!made.ok()) return made.status();
      pool = *made;
    }
    seats.push_back({.core = core, .pool = pool});
  }
  return seats;
}

// Checks devices before DPDK starts, which fails as a whole if one of them lacks something.
absl::Status CheckPciDevices(const Config& config, const drivers::EalConfig& eal) {
  for (const DeviceConfig& device : config.devices) {
    const drivers::DeviceArguments* const arguments = ArgumentsOf(device);
    if (arguments == nullptr || !arguments->IsPci()) continue;
    const absl::Status status = drivers::CheckPciDevice(
        arguments->name, drivers::ReadPciDevice(arguments->name), drivers::EnoughHugepages(eal));
    if (!status.ok()) return Complain(device, status);
  }
  return absl::OkStatus();
}

/// Whether the daemon still has the privileges that a port needs which is opened now.
absl::Status CheckPrivileges(const PortKind& kind) {
  constexpr uint64_t kNeeded = uint64_t{1} << CAP_NET_RAW | uint64_t{1} << CAP_NET_ADMIN;
  const auto* const by_packet_sockets = std::get_if<drivers::KernelInterface>(&kind);
  if (by_packet_sockets == nullptr) return absl::OkStatus();
  if ((EffectiveCapabilities() & kNeeded) == kNeeded) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "iface=", by_packet_sockets->interface,
      ": uroced has not kept CAP_NET_RAW and CAP_NET_ADMIN; start it as root with a port of iface= "
      "or with --keep-privileges, or add the port by udp="));
}

absl::Status CheckResources(const DeviceConfig& device, const PortResources& resources,
                            uint32_t further_queues) {
  const uint32_t frame_bytes = FrameBytesOf(device);
  if (frame_bytes > resources.frame_bytes) {
    const char* const key = MemifOf(device) != nullptr ? "bsize or mtu" : "mtu";
    return absl::ResourceExhaustedError(
        absl::StrCat(key, ": frames of ", frame_bytes, " bytes, and the pool has frames of ",
                     resources.frame_bytes, "; give uroced the port when it starts"));
  }
  if (further_queues + FurtherQueues(device) > resources.further_queues) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "queues=", device.queues, ": the pool has frames for ",
        resources.further_queues - further_queues + 1, "; give uroced the port when it starts"));
  }
  return CheckPrivileges(device.kind);
}

/// The port has no link until its network plugs it in.
absl::StatusOr<std::unique_ptr<drivers::Port>> OpenSwitchPort(
    const DeviceConfig& device, uint32_t index,
    const std::shared_ptr<drivers::SwitchNetwork>& network) {
  const uint32_t at = device.at_switch()->switch_index;
  const std::optional<uint32_t> host = network->FreeHost(at);
  if (!host) return absl::ResourceExhaustedError("switch: all of its ports have NICs");
  network->TakeIn(*host, {.mac = drivers::LocalMac(device.name, index),
                          .mtu_bytes = device.mtu_bytes,
                          .switch_index = at,
                          .link = {},
                          .device = index});
  return std::make_unique<drivers::SwitchPort>(network, *host);
}

absl::StatusOr<std::vector<std::unique_ptr<drivers::Port>>> OpenAddedPorts(
    const std::vector<DeviceConfig>& configs, const std::vector<uint32_t>& indices,
    const PortResources& resources, uint32_t further_queues) {
  const auto workers = static_cast<uint32_t>(resources.seats.size());
  std::vector<std::unique_ptr<drivers::Port>> ports;
  if (configs.front().cable()) {
    const absl::Status status =
        AddCable(EndOf(configs[0], indices[0]), EndOf(configs[1], indices[1]), workers, ports);
    if (!status.ok()) return status;
    return ports;
  }
  const DeviceConfig& device = configs.front();
  if (device.at_switch()) {
    auto port = OpenSwitchPort(device, indices.front(), resources.network);
    if (!port.ok()) return port.status();
    ports.push_back(*std::move(port));
    return ports;
  }
  absl::Status status = CheckResources(device, resources, further_queues);
  if (!status.ok()) return status;
  auto port = OpenPort(device, workers, resources.seats[indices.front() % workers].pool);
  if (!port.ok()) return port.status();
  ports.push_back(*std::move(port));
  return ports;
}

}  // namespace

uint32_t QueuesOf(const DeviceConfig& device, uint32_t workers) {
  if (device.queues != 0) return device.queues;
  return IsBySockets(device) ? workers : 1;
}

uint32_t FurtherQueues(const DeviceConfig& device) {
  return IsBySockets(device) || device.queues == 0 ? 0 : device.queues - 1;
}

absl::StatusOr<Ports> OpenPorts(const Config& config) {
  const Plan plan = MakePlan(config);
  if (absl::Status status = CheckPciDevices(config, plan.eal); !status.ok()) return status;
  if (absl::Status status = drivers::InitEal(plan.eal); !status.ok()) return status;
  for (const std::string& driver : drivers::DriversLeftOut()) {
    LogWarning("dpdk: without the driver {}", driver);
  }
  absl::StatusOr<std::vector<datapath::WorkerSeat>> seats = MakeSeats(config, plan);
  if (!seats.ok()) return seats.status();
  const auto network = MakeSwitchNetwork(config, seats->front().pool);
  auto ports = OpenAll(config, *seats, network);
  if (!ports.ok()) return ports.status();
  Ports result;
  result.seats = *seats;
  result.frame_bytes = plan.frame_bytes;
  result.further_queues = plan.further_queues + kSpareQueues;
  result.network = network;
  for (uint32_t index = 0; index < config.devices.size(); ++index) {
    auto device = MakeDevice(config.devices[index], index, std::move((*ports)[index]), *seats);
    if (absl::Status status = device->ConnectToKernel(); !status.ok()) {
      return Complain(config.devices[index], status);
    }
    if (absl::Status status = device->OpenAddressTap(); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--wire-interfaces: ", status.message()));
    }
    result.devices.push_back(std::move(device));
  }
  return result;
}

absl::StatusOr<std::vector<std::unique_ptr<NicDevice>>> OpenAdded(
    const std::vector<DeviceConfig>& configs, const std::vector<uint32_t>& indices,
    const PortResources& resources, uint32_t further_queues) {
  auto ports = OpenAddedPorts(configs, indices, resources, further_queues);
  if (!ports.ok()) return ComplainOfAdded(configs.front(), ports.status());
  std::vector<std::unique_ptr<NicDevice>> devices;
  for (size_t i = 0; i < configs.size(); ++i) {
    auto device = MakeDevice(configs[i], indices[i], std::move((*ports)[i]), resources.seats);
    for (const absl::Status& status : {device->ConnectToKernel(), device->OpenAddressTap()}) {
      if (!status.ok()) return ComplainOfAdded(configs[i], status);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace uroce::nic
