// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/nic.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "nic/objects/address_handles.h"
#include "nic/objects/program.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

// Address handles changed per stop of all workers: some tens of us at most.
constexpr size_t kAddressesPerStop = 256;

datapath::FrameLimits KeptLimitsOf(const Limits& limits) {
  return {.of_worker = limits.kept_frames,
          .of_program = limits.kept_frames_per_program,
          .of_queue_pair = limits.kept_frames_per_qp};
}

}  // namespace

Nic::Nic(const Config& config, std::vector<std::unique_ptr<NicDevice>> devices,
         std::span<const datapath::WorkerSeat> seats,
         std::shared_ptr<drivers::SwitchNetwork> network)
    : config_(config),
      network_(std::move(network)),
      keys_(config.limits.total_mrs),
      numbers_(static_cast<uint32_t>(seats.size())),
      userfaultfd_(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)),
      workers_({.keys = &keys_,
                .failures = &failures_,
                .overflows = &overflows_,
                .kept = KeptLimitsOf(config.limits)},
               seats) {
  config_.limits = Bounded(config_.limits);
  for (auto& device : devices) AddDevice(std::move(device));
  workers_.Start();
  for (const auto& device : devices_.present()) {
    if (device->tap() < 0) continue;
    exception_paths_.push_back(std::make_unique<ExceptionPath>(
        device->config().exception, device->tap(), *device->host_link(), HostWorkerOf(*device)));
  }
}

Nic::~Nic() {
  exception_paths_.clear();  // They wake a worker.
  workers_.Stop();
  datapath::CopyHelper::AwaitAll();
}

Limits Nic::Bounded(Limits limits) {
  // If memory fits the limit but not the machine, the kernel kills a process, most likely this one.
  const uint64_t machine_bytes =
      uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  limits.memory_per_user = std::min(limits.memory_per_user, machine_bytes / 4 * 3);
  // Leaves room for others' mappings, whatever one user does.
  limits.mappings_per_user =
      std::min(limits.mappings_per_user, std::max(MappingGuard::Get().capacity() / 2, 1u));
  return limits;
}

void Nic::TakeSettings(const Config& next) {
  config_.log_level = next.log_level;
  config_.limits = Bounded(next.limits);
  config_.nics = next.nics;
  for (DeviceConfig& device : config_.devices) {
    const auto changed = std::ranges::find(next.devices, device.name, &DeviceConfig::name);
    if (changed == next.devices.end()) continue;
    device.rate_bps = changed->rate_bps;
    device.congestion = changed->congestion;
    device.fault = changed->fault;
  }
  workers_.RunTogether([&] {
    for (auto& [uid, user] : users_) user.SetLimits(config_.limits);
  });
}

NetDevices Nic::net_devices() const {
  NetDevices devices;
  for (const auto& device : devices_.present()) devices.push_back(device.get());
  return devices;
}

absl::StatusOr<std::vector<uint32_t>> Nic::NextDeviceIndices(size_t count) const {
  std::vector<uint32_t> indices = devices_.NextIndices(count);
  if (indices.size() == count) return indices;
  return absl::ResourceExhaustedError(
      absl::StrCat(devices_.present().size() + devices_.removed().size(), " of ", UROCE_MAX_DEVICES,
                   " places of NICs are taken, ", devices_.removed().size(),
                   " of them by removed NICs that programs still have open"));
}

NicDevice& Nic::AddDevice(std::unique_ptr<NicDevice> device) {
  NicDevice& added = devices_.Add(std::move(device));
  workers_.AddDevice(&added.datapath());
  return added;
}

// Answers that are owed leave with the queue pairs' end, before the port goes.
void Nic::RemoveDevice(NicDevice& device) {
  devices_.Remove(device);
  device.MarkRemoved();
  for (const auto& [id, program] : programs_) {
    program->contexts().RaisePortEvent(device, IBV_EVENT_DEVICE_FATAL);
  }
  for (uint32_t worker = 0; worker < workers_.count(); ++worker) {
    workers_.at(worker).FailDevice(device.datapath());
  }
  workers_.UnplugDevice(device.datapath(), device.absent_port());
  device.TakePort().reset();
}

void Nic::ReleaseDevices() {
  for (const auto& device : devices_.TakeReleased()) workers_.RemoveDevice(&device->datapath());
}

datapath::Worker& Nic::OwnerOf(const datapath::QueuePair& queue_pair) {
  return workers_.OwnerOf(queue_pair.qpn());
}

datapath::Worker& Nic::HostWorkerOf(const NicDevice& device) {
  return workers_.at(device.datapath().host_worker());
}

void Nic::ChangeMac(NicDevice& device) {
  const Mac old = device.datapath().mac;
  const Mac& mac = device.info().mac;
  workers_.ChangeMac(device.datapath(), mac);
  RewriteAddresses([&](const NicDevice& from, datapath::Path& path) {
    const bool from_here = &from == &device;
    const bool to_here = path.destination_mac == old;
    if (from_here) path.source_mac = mac;
    if (to_here) path.destination_mac = mac;
    return from_here || to_here;
  });
}

void Nic::RewriteAddresses(PathRewriter rewrite) {
  std::vector<std::pair<AddressHandle*, datapath::Path>> changed;
  for (AddressHandle* ah : address_handles_) {
    datapath::Path path = ah->vector.path();
    if (rewrite(*ah->pd->context->device, path)) changed.emplace_back(ah, path);
  }
  for (std::span rest(changed); !rest.empty();) {
    const std::span some = rest.first(std::min(rest.size(), kAddressesPerStop));
    workers_.RunTogether([&] {
      for (const auto& [ah, path] : some) ah->vector.set_path(path);
    });
    rest = rest.subspan(some.size());
  }
}

NicDevice::Change Nic::Refresh(NicDevice& device) {
  const NicDevice::Change change = device.Refresh();
  if (change.mac) ChangeMac(device);
  if (change.gids) workers_.RunTogether([&] { device.ShowAddresses(); });
  return change;
}

void Nic::MovePaths(std::span<const FollowedPath> paths) {
  if (paths.empty()) return;
  using Key = std::tuple<uint32_t, uint16_t, Gid, Gid>;
  std::map<Key, Mac> macs;
  for (const FollowedPath& path : paths) {
    const PathKey& key = path.key;
    macs[{key.device->index(), key.vlan_id, key.source, key.destination}] = path.mac;
  }
  const auto move = [&](uint32_t device, datapath::Path& path) {
    const auto moved = macs.find({device, VlanIdOf(path.vlan_tci), path.source, path.destination});
    if (moved == macs.end()) return false;
    path.destination_mac = moved->second;
    return true;
  };
  for (uint32_t worker = 0; worker < workers_.count(); ++worker) {
    workers_.at(worker).RewritePaths(
        [&](const datapath::QueuePair& queue_pair, datapath::Path& path) {
          return move(queue_pair.config().device->index(), path);
        });
  }
  RewriteAddresses(
      [&](const NicDevice& device, datapath::Path& path) { return move(device.index(), path); });
}

void Nic::FailOverflowed() {
  for (const datapath::CompletionQueue* queue : overflows_.TakeAll()) {
    queue->ForEachRing([this](datapath::CompletionRing& ring) {
      datapath::Worker& worker = workers_.at(ring.worker());
      worker.Run([&] { worker.FailQueuePairsOf(&ring); });
    });
  }
}

Nanos Nic::Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace uroce::nic
