// SPDX-License-Identifier: Apache-2.0
// The ports of one worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/datapath/port/device_port.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

/// A turn goes through them in the order in which they were added. They change between turns only.
/// One thread.
class DevicePorts {
 public:
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  /// The port at a position (DevicePort::position), or null: frames may come from another worker
  /// for a device that was removed, or is not here yet.
  DevicePort* At(uint16_t position) const {
    DevicePort* const port = slots_[position % UROCE_MAX_DEVICES];
    return port != nullptr && port->position() == position ? port : nullptr;
  }
  DevicePort* Find(const Device& device) const { return At(static_cast<uint16_t>(device.index())); }

  DevicePort& Add(std::unique_ptr<DevicePort> port) {
    slots_[port->position() % UROCE_MAX_DEVICES] = port.get();
    return *list_.emplace_back(std::move(port));
  }
  /// Range: no queue pair of `device` is left.
  void Remove(const Device& device) {
    slots_[device.index() % UROCE_MAX_DEVICES] = nullptr;
    std::erase_if(list_, [&](const auto& port) { return &port->device() == &device; });
  }

 private:
  std::vector<std::unique_ptr<DevicePort>> list_;
  std::array<DevicePort*, UROCE_MAX_DEVICES> slots_{};
};

}  // namespace uroce::datapath
