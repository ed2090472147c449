// SPDX-License-Identifier: Apache-2.0
// The address handles of one program, as workers see them. The control thread writes, and any
// number of workers read, without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/wire/encode.h"

namespace uroce::datapath {

/// Where the datagrams of one address handle go. The path names no queue pair: each datagram names
/// its own. Changed while all workers stand still.
class AddressVector {
 public:
  /// `pd`: the daemon-wide number of the protection domain.
  AddressVector(uint32_t pd, const Path& path) : pd_(pd) { set_path(path); }

  uint32_t pd() const { return pd_; }
  const Path& path() const { return path_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  void set_path(const Path& path) {
    path_ = path;
    header_template_ = MakeTemplate(path);
  }

 private:
  uint32_t pd_;
  Path path_;
  wire::HeaderTemplate header_template_;
};

/// By handle: a small number that the control thread gives and the program repeats in requests.
class AddressTable {
 public:
  /// Makes a table for handles below `capacity`.
  explicit AddressTable(uint32_t capacity)
      : capacity_(capacity),
        slots_(std::make_unique<std::atomic<const AddressVector*>[]>(capacity)) {}

  /// Returns the address vector of a handle, or null. Any worker; valid for this turn.
  const AddressVector* Find(uint32_t handle) const {
    return handle < capacity_ ? slots_[handle].load(std::memory_order_acquire) : nullptr;
  }
  /// Sets an entry. Null hides the old one: free it after a grace period. Control thread.
  void Set(uint32_t handle, const AddressVector* vector) {
    slots_[handle].store(vector, std::memory_order_release);
  }

 private:
  const uint32_t capacity_;
  std::unique_ptr<std::atomic<const AddressVector*>[]> slots_;
};

}  // namespace uroce::datapath
