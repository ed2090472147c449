// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/nic.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "nic/base/log.h"
#include "nic/base/memory_limit.h"
#include "nic/devices/device_table.h"
#include "nic/devices/exception_path.h"
#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/address_handles.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program.h"
#include "nic/objects/resources.h"
#include "nic/objects/worker_inboxes.h"
#include "nic/objects/xrc.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"

namespace uroce::nic {
namespace {

// Address handles changed per stop of all workers: some tens of us at most.
constexpr size_t kAddressesPerStop = 256;

datapath::FrameLimits KeptLimitsOf(const Limits& limits) {
  return {.of_worker = limits.kept_frames,
          .of_program = limits.kept_frames_per_program,
          .of_queue_pair = limits.kept_frames_per_qp};
}

/// How many mappings of memory all programs may have: each session has one for its arena besides.
uint32_t MappingsOfAll(const Limits& limits) {
  const uint32_t all = MappingGuard::Get().capacity();
  return std::max(all - std::min(all, limits.sessions), 1u);
}

Fd OpenUserfaultfd(bool is_shared) {
  constexpr const char* kPath = "/dev/userfaultfd";
  Fd device(open(kPath, O_RDWR | O_CLOEXEC));
  if (!device && is_shared) {
    LogWarning("--share-userfaultfd has no effect: {}: {}", kPath, std::strerror(errno));
  }
  return device;
}

}  // namespace

/// In the order of construction: what workers use comes before them.
struct Nic::Parts {
  Parts(const Config& settings, std::span<const datapath::WorkerSeat> seats,
        std::shared_ptr<drivers::SwitchNetwork> switches);

  /// Calls `rewrite` for each address handle's path; it returns whether it changed the path.
  using PathRewriter = absl::FunctionRef<bool(const NicDevice& device, datapath::Path& path)>;
  void RewriteAddresses(PathRewriter rewrite);
  void ChangeMac(NicDevice& device);

  Config config;
  const std::shared_ptr<drivers::SwitchNetwork> network;
  DeviceTable<NicDevice> devices;
  datapath::KeyTable keys;
  Numbers numbers;
  XrcDomains xrc_domains;
  Domains domains;
  std::map<uint32_t, Program*> programs;
  std::set<AddressHandle*> address_handles;
  Pools pools;
  std::map<uint32_t, UserAccount> users;  ///< Segments point into it.
  const std::shared_ptr<SideThread> reaper = std::make_shared<SideThread>();
  const Fd userfaultfd;
  FailureInbox failures;
  OverflowInbox overflows;
  datapath::Workers workers;
  std::vector<std::unique_ptr<ExceptionPath>> exception_paths;
};

Nic::Parts::Parts(const Config& settings, std::span<const datapath::WorkerSeat> seats,
                  std::shared_ptr<drivers::SwitchNetwork> switches)
    : config(settings),
      network(std::move(switches)),
      keys(settings.limits.total_mrs),
      numbers(static_cast<uint32_t>(seats.size())),
      pools(settings.limits, MappingsOfAll(settings.limits), MemoryLimit()),
      userfaultfd(OpenUserfaultfd(settings.share_userfaultfd)),
      workers({.keys = &keys,
               .failures = &failures,
               .overflows = &overflows,
               .kept = KeptLimitsOf(settings.limits)},
              seats) {
  config.limits = Bounded(config.limits);
}

Nic::Nic(const Config& config, std::vector<std::unique_ptr<NicDevice>> devices,
         std::span<const datapath::WorkerSeat> seats,
         std::shared_ptr<drivers::SwitchNetwork> network)
    : parts_(std::make_unique<Parts>(config, seats, std::move(network))) {
  for (auto& device : devices) AddDevice(std::move(device));
  parts_->workers.Start();
  for (const auto& device : parts_->devices.present()) {
    if (!device->kernel().has_exception_tap()) continue;
    parts_->exception_paths.push_back(std::make_unique<ExceptionPath>(
        device->config().exception, device->kernel().exception_tap(), *device->datapath().host_link,
        HostWorkerOf(*device)));
  }
}

Nic::~Nic() {
  parts_->exception_paths.clear();  // They wake a worker.
  parts_->workers.Stop();
  datapath::CopyHelper::AwaitAll();
}

const Config& Nic::config() const { return parts_->config; }
const Nic::Devices& Nic::devices() const { return parts_->devices.present(); }
NicDevice* Nic::DeviceAt(uint32_t index) const { return parts_->devices.At(index); }
size_t Nic::held_devices() const { return parts_->devices.removed().size(); }
drivers::SwitchNetwork* Nic::network() const { return parts_->network.get(); }
datapath::Workers& Nic::workers() { return parts_->workers; }
const datapath::Workers& Nic::workers() const { return parts_->workers; }
FailureInbox& Nic::failures() { return parts_->failures; }
OverflowInbox& Nic::overflows() { return parts_->overflows; }
std::map<uint32_t, Program*>& Nic::programs() { return parts_->programs; }
std::set<AddressHandle*>& Nic::address_handles() { return parts_->address_handles; }
datapath::KeyTable& Nic::keys() { return parts_->keys; }
Numbers& Nic::numbers() { return parts_->numbers; }
const Numbers& Nic::numbers() const { return parts_->numbers; }
XrcDomains& Nic::xrc_domains() { return parts_->xrc_domains; }
Domains& Nic::domains() { return parts_->domains; }
const std::shared_ptr<SideThread>& Nic::reaper() const { return parts_->reaper; }
int Nic::userfaultfd() const { return parts_->userfaultfd.get(); }

UserAccount& Nic::user(uint32_t uid) {
  const Config& config = parts_->config;
  return parts_->users.try_emplace(uid, uid, config.limits, parts_->pools, config.copy_other_users)
      .first->second;
}

void Nic::ForgetRead() {
  for (auto& [uid, user] : parts_->users) user.ForgetRead();
}

Limits Nic::Bounded(Limits limits) {
  // If memory fits the limit but not the machine, the kernel kills a process, most likely this one.
  const uint64_t bytes = MemoryLimit();
  limits.memory_per_user = std::min(limits.memory_per_user, bytes / 4 * 3);
  limits.queue_bytes_per_user = std::min(limits.queue_bytes_per_user, bytes / 4);
  limits.own_bytes_per_user = std::min(limits.own_bytes_per_user, bytes / 8);
  // The connection manager counts ids and no bytes: they are a sixteenth of the others at most.
  constexpr uint64_t kIdBytes = 1024;
  limits.cm_ids_per_user = static_cast<uint32_t>(
      std::clamp<uint64_t>(limits.own_bytes_per_user / 16 / kIdBytes, 1, limits.cm_ids_per_user));
  // Leaves room for others' mappings, whatever one user does.
  limits.mappings_per_user =
      std::min(limits.mappings_per_user, std::max(MappingGuard::Get().capacity() / 2, 1u));
  return limits;
}

void Nic::TakeSettings(const Config& next) {
  parts_->config.log_level = next.log_level;
  parts_->config.limits = Bounded(next.limits);
  parts_->config.nics = next.nics;
  for (DeviceConfig& device : parts_->config.devices) {
    const auto changed = std::ranges::find(next.devices, device.name, &DeviceConfig::name);
    if (changed == next.devices.end()) continue;
    device.rate_bps = changed->rate_bps;
    device.congestion = changed->congestion;
    device.fault = changed->fault;
  }
  parts_->workers.RunTogether([&] {
    for (auto& [uid, user] : parts_->users) user.SetLimits(parts_->config.limits);
  });
}

NetDevices Nic::net_devices() const {
  NetDevices devices;
  for (const auto& device : parts_->devices.present()) devices.push_back(device.get());
  return devices;
}

std::vector<uint32_t> Nic::NextDeviceIndices(size_t count) const {
  return parts_->devices.NextIndices(count);
}

NicDevice& Nic::AddDevice(std::unique_ptr<NicDevice> device) {
  NicDevice& added = parts_->devices.Add(std::move(device));
  added.removable_port().get().UseOwners(parts_->workers.owners());
  parts_->workers.AddDevice(&added.datapath());
  return added;
}

// Answers that are owed leave with the queue pairs' end, before the port goes.
void Nic::RemoveDevice(NicDevice& device) {
  parts_->devices.Remove(device);
  device.MarkRemoved();
  for (const auto& [id, program] : parts_->programs) {
    program->contexts().RaisePortEvent(device, IBV_EVENT_DEVICE_FATAL);
  }
  for (uint32_t worker = 0; worker < parts_->workers.count(); ++worker) {
    parts_->workers.at(worker).FailDevice(device.datapath());
  }
  parts_->workers.UnplugDevice(device.datapath(), device.removable_port().absent());
  device.removable_port().Take().reset();
}

void Nic::ReleaseDevices() {
  for (const auto& device : parts_->devices.TakeReleased()) {
    parts_->workers.RemoveDevice(&device->datapath());
  }
}

datapath::Worker& Nic::OwnerOf(const datapath::QueuePair& queue_pair) {
  return parts_->workers.OwnerOf(queue_pair.qpn());
}

datapath::Worker& Nic::HostWorkerOf(const NicDevice& device) {
  return parts_->workers.at(device.datapath().host_worker());
}

void Nic::Parts::ChangeMac(NicDevice& device) {
  const Mac old = device.datapath().mac;
  const Mac& mac = device.info().mac;
  workers.ChangeMac(device.datapath(), mac);
  RewriteAddresses([&](const NicDevice& from, datapath::Path& path) {
    const bool from_here = &from == &device;
    const bool to_here = path.destination_mac == old;
    if (from_here) path.source_mac = mac;
    if (to_here) path.destination_mac = mac;
    return from_here || to_here;
  });
}

void Nic::Parts::RewriteAddresses(PathRewriter rewrite) {
  std::vector<std::pair<AddressHandle*, datapath::Path>> changed;
  for (AddressHandle* ah : address_handles) {
    datapath::Path path = ah->vector.path();
    if (rewrite(*ah->pd->context->device, path)) changed.emplace_back(ah, path);
  }
  for (std::span rest(changed); !rest.empty();) {
    const std::span some = rest.first(std::min(rest.size(), kAddressesPerStop));
    workers.RunTogether([&] {
      for (const auto& [ah, path] : some) ah->vector.set_path(path);
    });
    rest = rest.subspan(some.size());
  }
}

DeviceChange Nic::Refresh(NicDevice& device) {
  const DeviceChange change = device.Refresh();
  if (change.mac) parts_->ChangeMac(device);
  if (change.gids) parts_->workers.RunTogether([&] { device.ShowAddresses(); });
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
  for (uint32_t worker = 0; worker < parts_->workers.count(); ++worker) {
    parts_->workers.at(worker).RewritePaths(
        [&](const datapath::QueuePair& queue_pair, datapath::Path& path) {
          return move(queue_pair.config().device->index(), path);
        });
  }
  parts_->RewriteAddresses(
      [&](const NicDevice& device, datapath::Path& path) { return move(device.index(), path); });
}

void Nic::FailOverflowed() {
  for (const datapath::CompletionQueue* queue : parts_->overflows.TakeAll()) {
    queue->ForEachRing([this](datapath::CompletionRing& ring) {
      datapath::Worker& worker = parts_->workers.at(ring.worker());
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
