// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/workers.h"

#include <rte_mempool.h>

#include <utility>

#include "pipeline/datapath/port/device.h"

namespace uroce::datapath {

Workers::Workers(const WorkerConfig& common, std::span<const WorkerSeat> seats)
    : cross_worker_(static_cast<uint32_t>(seats.size()),
                    [this](uint32_t worker) { workers_[worker]->Wake(); }),
      grace_(static_cast<uint32_t>(seats.size())) {
  for (const WorkerSeat& seat : seats) {
    WorkerConfig config = common;
    config.index = count();
    config.core = seat.core;
    config.pool = seat.pool;
    config.cross_worker = &cross_worker_;
    config.grace = &grace_;
    pools_.insert(seat.pool);
    workers_.push_back(std::make_unique<Worker>(config));
  }
}

// The queues between workers are destroyed last: frames in them belong to no worker.
Workers::~Workers() { Stop(); }

void Workers::Start() {
  for (const auto& worker : workers_) worker->Start();
}

void Workers::Stop() {
  for (const auto& worker : workers_) worker->Stop();
}

void Workers::RunOnEach(absl::FunctionRef<void(Worker&)> work) {
  for (const auto& worker : workers_) worker->Run([&] { work(*worker); });
}

void Workers::RunTogether(absl::FunctionRef<void()> work) {
  for (const auto& worker : workers_) worker->Hold();
  for (const auto& worker : workers_) worker->AwaitHold();
  work();
  for (const auto& worker : workers_) worker->Release();
}

uint64_t Workers::frames_in_use() const {
  uint64_t frames = 0;
  for (const rte_mempool* pool : pools_) frames += rte_mempool_in_use_count(pool);
  return frames;
}

void Workers::AddDevice(Device* device) {
  RunOnEach([device](Worker& worker) { worker.AddDevice(device); });
}

void Workers::UnplugDevice(Device& device, drivers::Port* absent) {
  RunTogether([&] {
    for (const auto& worker : workers_) worker->UnplugDevice(&device, absent);
    device.ReplacePort(absent);
  });
}

void Workers::RemoveDevice(Device* device) {
  RunOnEach([device](Worker& worker) { worker.RemoveDevice(device); });
}

void Workers::ChangeMac(Device& device, const Mac& mac) {
  RunTogether([&] {
    const Mac old = std::exchange(device.mac, mac);
    for (const auto& worker : workers_) worker->FollowMac(device, old);
  });
}

}  // namespace uroce::datapath
