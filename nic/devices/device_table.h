// SPDX-License-Identifier: Apache-2.0
// The devices that there are, and those that were removed but are still referred to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {

/// A device has a slot, below UROCE_MAX_DEVICES, until the table alone refers to it. Its index is
/// the slot plus a multiple of UROCE_MAX_DEVICES: indices count up, so that a program which keeps
/// the index of a removed device finds no other device under it, before 2^16 devices have come and
/// gone. `Device` has index(). One thread.
template <typename Device>
class DeviceTable {
 public:
  using List = std::vector<std::shared_ptr<Device>>;
  static constexpr uint32_t kSlots = UROCE_MAX_DEVICES;
  static constexpr uint32_t kIndices = 1u << 16;

  /// Those that are there, in the order in which they came.
  const List& present() const { return present_; }
  /// Those that were removed, and not released yet.
  const List& removed() const { return removed_; }
  /// The device that is there with this index, or null.
  Device* At(uint32_t index) const {
    const auto found = std::ranges::find(present_, index, &Device::index);
    return found == present_.end() ? nullptr : found->get();
  }

  /// The indices for the next `count` calls of Add; fewer when the slots do not suffice.
  std::vector<uint32_t> NextIndices(size_t count) const {
    std::vector<uint32_t> indices;
    for (uint32_t step = 0; step < kSlots && indices.size() < count; ++step) {
      const uint32_t index = (next_ + step) % kIndices;
      if (!is_taken_[index % kSlots]) indices.push_back(index);
    }
    return indices;
  }
  /// Range: no other device has the slot of its index.
  Device& Add(std::shared_ptr<Device> device) {
    is_taken_[device->index() % kSlots] = true;
    next_ = (device->index() + 1) % kIndices;
    return *present_.emplace_back(std::move(device));
  }
  /// It is not among those that are there any more.
  void Remove(const Device& device) {
    const auto found = std::ranges::find(present_, &device, &std::shared_ptr<Device>::get);
    removed_.push_back(std::move(*found));
    present_.erase(found);
  }
  /// The removed devices to which no other object refers. Their slots are free.
  List TakeReleased() {
    List released;
    std::erase_if(removed_, [&](std::shared_ptr<Device>& device) {
      if (device.use_count() != 1) return false;
      is_taken_[device->index() % kSlots] = false;
      released.push_back(std::move(device));
      return true;
    });
    return released;
  }

 private:
  List present_;
  List removed_;
  std::array<bool, kSlots> is_taken_{};
  uint32_t next_ = 0;
};

}  // namespace uroce::nic
