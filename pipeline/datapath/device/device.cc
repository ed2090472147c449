// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/device/device.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/port/port.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kRelayFrames = 256;

}  // namespace

Device::Device(std::string name, uint32_t index, drivers::Port* port, uint32_t workers)
    : name_(std::move(name)),
      index_(index),
      port_(port),
      workers_(workers),
      queues_(port->queues()),
      relays_(workers),
      counters_(workers) {
  assert(queues_ <= workers_);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    if (QueueOf(worker)) continue;
    relays_[worker] = std::make_unique<drivers::FrameQueue>(kRelayFrames);
  }
}

// With a queue for each worker, worker i drives queue i. Ports with fewer queues begin at different
// workers, so that the first worker does not drive all ports with one queue.
uint32_t Device::DriverOfQueue(uint32_t queue) const {
  return queues_ == workers_ ? queue : (index_ + queue) % workers_;
}

void Device::SetCongestionOfPriorities(const SettingsOfPriorities& settings, uint64_t line_bps) {
  for (CounterBlock& block : counters_) {
    for (uint32_t priority = 0; priority < congestion::kPriorities; ++priority) {
      congestion::Environment& environment = block.congestion[priority];
      environment.settings = settings[priority];
      environment.priority = priority;
      environment.line_bps = line_bps;
    }
  }
}

void Device::SetCongestion(const congestion::Settings& settings, uint64_t line_bps) {
  SettingsOfPriorities all;
  all.fill(settings);
  SetCongestionOfPriorities(all, line_bps);
}

congestion::Environment& Device::CongestionOf(Qpn qpn, uint8_t traffic_class) {
  return congestion(OwnerOf(qpn, workers_))[congestion::PriorityOf(traffic_class)];
}

bool Device::HasAddress(const Gid& gid) const {
  return std::ranges::any_of(addresses, [&](const Address& its) { return its.gid == gid; });
}

std::optional<uint16_t> Device::QueueOf(uint32_t worker) const {
  for (uint32_t queue = 0; queue < queues_; ++queue) {
    if (DriverOfQueue(queue) == worker) return static_cast<uint16_t>(queue);
  }
  return std::nullopt;
}

uint32_t Device::DriverOf(uint32_t worker) const {
  return QueueOf(worker) ? worker : DriverOfQueue(worker % queues_);
}

uint64_t Device::Sum(std::atomic<uint64_t> DeviceCounters::*counter) const {
  uint64_t sum = 0;
  for (uint32_t worker = 0; worker < workers_; ++worker) sum += Of(worker, counter);
  return sum;
}

}  // namespace uroce::datapath
