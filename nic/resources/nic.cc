// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/nic.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "pipeline/datapath/copy_helper.h"
#include "pipeline/datapath/queue_pair.h"

namespace uroce::nic {

Nic::Nic(const Config& config, std::vector<std::unique_ptr<NicDevice>> devices, rte_mempool* pool)
    : config_(config),
      devices_(std::move(devices)),
      keys_(config.limits.total_mrs),
      userfaultfd_(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)),
      worker_({.pool = pool, .keys = &keys_, .flights = &flights_, .overflows = &overflows_}) {
  // What fits the limit but not the machine would have the kernel kill a process, most likely us.
  const uint64_t machine_bytes =
      uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t& limit = config_.limits.memory_per_user;
  limit = std::min(limit, machine_bytes / 4 * 3);
  worker_.Run([this] {
    for (const auto& device : devices_) worker_.AddDevice(&device->datapath());
  });
  worker_.Start();
  for (const auto& device : devices_) {
    if (device->tap() < 0) continue;
    exception_paths_.push_back(std::make_unique<ExceptionPath>(
        device->config().exception, device->tap(), *device->host_link(), worker_));
  }
}

Nic::~Nic() {
  exception_paths_.clear();  // They wake the worker.
  worker_.Stop();
  datapath::CopyHelper::AwaitAll();
}

const NicDevice* Nic::FindOwner(const GidEntry& entry, const NicDevice& from) const {
  for (const auto& device : devices_) {
    if (!device->gids().Find(entry)) continue;
    const bool same_wire = device->config().wire == from.config().wire;
    if (device.get() == &from || same_wire) return device.get();
  }
  return nullptr;
}

NicDevice::Change Nic::Refresh(NicDevice& device) {
  const NicDevice::Change change = device.Refresh();
  if (change.mac) {
    worker_.Run([&] { worker_.ChangeMac(&device.datapath(), device.info().mac); });
  }
  return change;
}

void Nic::MovePaths(std::span<const FollowedPath> paths) {
  if (paths.empty()) return;
  using Key = std::tuple<const datapath::Device*, uint16_t, Gid, Gid>;
  std::map<Key, Mac> macs;
  for (const FollowedPath& path : paths) {
    const PathKey& key = path.key;
    macs[{&key.device->datapath(), key.vlan_id, key.source, key.destination}] = path.mac;
  }
  worker_.Run([&] {
    worker_.RewritePaths([&](const datapath::QueuePair& queue_pair, datapath::Path& path) {
      const auto moved = macs.find(
          {queue_pair.config().device, VlanIdOf(path.vlan_tci), path.source, path.destination});
      if (moved == macs.end()) return false;
      path.destination_mac = moved->second;
      return true;
    });
  });
}

void Nic::FailOverflowed() {
  for (const datapath::CompletionQueue* queue : overflows_.TakeAll()) {
    queue->ForEachRing([this](datapath::CompletionRing& ring) {
      worker_.Run([&] { worker_.FailQueuePairsOf(&ring); });
    });
  }
}

Nanos Nic::Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace uroce::nic
