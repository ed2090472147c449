// SPDX-License-Identifier: Apache-2.0
// Memory that devices reach: that of devices, and of the host as far as the driver knows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/gpu/driver/pinned_pages.h"

namespace uroce::test_gpu {

struct Context;

/// Bytes of a device. They lie in a file, which other processes can open, and this process has them
/// at `shadow`, an address that no program knows.
class DeviceBytes {
 public:
  /// Null: no memory is left.
  static std::shared_ptr<DeviceBytes> Make(int device, size_t bytes);
  /// Of another process; takes `fd`.
  static std::shared_ptr<DeviceBytes> Import(int device, int fd, size_t bytes);
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes();

  int device() const { return device_; }
  int fd() const { return fd_; }
  size_t bytes() const { return bytes_; }
  uint8_t* shadow() const { return shadow_; }

 private:
  DeviceBytes(int device, int fd, size_t bytes, uint8_t* shadow)
      : device_(device), fd_(fd), bytes_(bytes), shadow_(shadow) {}

  int device_;
  int fd_;
  size_t bytes_;
  uint8_t* shadow_;
};

enum class Kind : uint8_t {
  kAllocated,   ///< cuMemAlloc
  kPool,        ///< cuMemAllocAsync
  kVirtual,     ///< cuMemMap
  kImported,    ///< cuIpcOpenMemHandle
  kHost,        ///< cuMemHostAlloc
  kRegistered,  ///< cuMemHostRegister
  kManaged,     ///< cuMemAllocManaged
};

/// Addresses that the driver knows. A value of Space.
struct Range {
  uint64_t start = 0;
  size_t bytes = 0;
  Kind kind = Kind::kAllocated;
  int device = 0;
  Context* context = nullptr;  // With which the range ends; null: with none.
  uint64_t buffer_id = 0;
  std::shared_ptr<DeviceBytes> device_bytes;  // Of device memory.
  size_t offset = 0;                          // Of the range in `device_bytes`.
  bool is_accessible = true;
  std::shared_ptr<PinnedPages> pages;  // Of registered memory.

  bool is_device() const { return device_bytes != nullptr; }
};

/// Bytes that a copy reads or writes, at one place. Keeps them.
struct Part {
  uint8_t* memory = nullptr;  ///< Null: of `pages`.
  size_t offset = 0;          ///< In `pages`.
  size_t bytes = 0;
  std::shared_ptr<DeviceBytes> device_bytes;
  std::shared_ptr<PinnedPages> pages;
};

/// The addresses of a process. Device memory lies in one reservation that the CPU cannot access.
/// The caller holds the lock of the machine.
class Space {
 public:
  Space();

  /// Reserves device addresses; 0: none are left.
  uint64_t Reserve(size_t bytes, size_t alignment);
  /// Ends a reservation; false: there is none, or with another size (0: any).
  bool Unreserve(uint64_t start, size_t bytes);
  /// Whether a reservation holds all of the range.
  bool IsReserved(uint64_t start, size_t bytes) const;
  bool IsOfDevices(uint64_t address) const;

  /// Adds a range under a new buffer id. The caller has found the addresses free.
  Range& Add(Range range);
  void Remove(uint64_t start);
  /// The range that has `address`, or null.
  Range* Find(uint64_t address);
  /// Whether a range has one of the bytes.
  bool Overlaps(uint64_t start, size_t bytes);
  /// The bytes at [address, address + bytes); empty: not all are known and accessible. Ranges
  /// continue each other only where they are mapped side by side (cuMemMap).
  std::vector<Part> Locate(uint64_t address, size_t bytes);
  /// Removes all that ends with `context`.
  void RemoveOf(const Context* context);

 private:
  uint64_t base_;
  std::map<uint64_t, size_t> reserved_;
  std::map<uint64_t, Range> ranges_;
  uint64_t next_buffer_id_ = 1;
};

}  // namespace uroce::test_gpu
