// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "tests/gpu/driver/control.h"

namespace uroce::test_gpu {
namespace {

constexpr uint64_t kSpaceBytes = uint64_t{64} << 30;
constexpr size_t kDeviceMemoryBytes = size_t{2} << 30;  // Of each device, for each process.
constexpr size_t kGuardBytes = 64 << 10;                // Between reservations.
constexpr int kMostDevices = 2;

std::atomic<size_t> taken_bytes[kMostDevices];

uint8_t* MapShadow(int fd, size_t bytes) {
  void* const shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return shadow == MAP_FAILED ? nullptr : static_cast<uint8_t*>(shadow);
}

}  // namespace

std::shared_ptr<DeviceBytes> DeviceBytes::Make(int device, size_t bytes) {
  if (bytes > kDeviceMemoryBytes - taken_bytes[device]) return nullptr;
  const int fd = memfd_create("uroce-test-gpu-memory", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::abort();
  return Import(device, fd, bytes);
}

std::shared_ptr<DeviceBytes> DeviceBytes::Import(int device, int fd, size_t bytes) {
  uint8_t* const shadow = MapShadow(fd, bytes);
  if (shadow == nullptr) {
    close(fd);
    return nullptr;
  }
  taken_bytes[device] += bytes;
  return std::shared_ptr<DeviceBytes>(new DeviceBytes(device, fd, bytes, shadow));
}

DeviceBytes::~DeviceBytes() {
  munmap(shadow_, bytes_);
  close(fd_);
  taken_bytes[device_] -= bytes_;
}

Space::Space() {
  void* const memory =
      mmap(nullptr, kSpaceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  base_ = reinterpret_cast<uint64_t>(memory);
}

uint64_t Space::Reserve(size_t bytes, size_t alignment) {
  const auto round_up = [alignment](uint64_t value) {
    return (value + alignment - 1) / alignment * alignment;
  };
  uint64_t start = round_up(base_);
  for (const auto& [its_start, its_bytes] : reserved_) {
    if (its_start >= start && its_start - start >= bytes + kGuardBytes) break;
    start = round_up(its_start + its_bytes + kGuardBytes);
  }
  if (start + bytes > base_ + kSpaceBytes) return 0;
  reserved_[start] = bytes;
  return start;
}

bool Space::Unreserve(uint64_t start, size_t bytes) {
  const auto it = reserved_.find(start);
  if (it == reserved_.end() || (bytes != 0 && it->second != bytes)) return false;
  reserved_.erase(it);
  return true;
}

bool Space::IsReserved(uint64_t start, size_t bytes) const {
  auto it = reserved_.upper_bound(start);
  if (it == reserved_.begin()) return false;
  --it;
  return start - it->first < it->second && bytes <= it->second - (start - it->first);
}

bool Space::IsOfDevices(uint64_t address) const { return address - base_ < kSpaceBytes; }

Range& Space::Add(Range range) {
  range.buffer_id = next_buffer_id_++;
  if (range.kind == Kind::kRegistered) test_gpu::Add(TheControl().registered, 1);
  return ranges_[range.start] = std::move(range);
}

void Space::Remove(uint64_t start) {
  const auto it = ranges_.find(start);
  if (it == ranges_.end()) return;
  const Range& range = it->second;
  if (range.kind == Kind::kRegistered) test_gpu::Add(TheControl().registered, ~uint32_t{0});
  const bool has_reservation = range.is_device() && range.kind != Kind::kVirtual;
  if (has_reservation) Unreserve(start, 0);
  if (range.kind == Kind::kHost || range.kind == Kind::kManaged) {
    munmap(reinterpret_cast<void*>(start), range.bytes);
  }
  ranges_.erase(it);
}

Range* Space::Find(uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? &it->second : nullptr;
}

bool Space::Overlaps(uint64_t start, size_t bytes) {
  const auto it = ranges_.lower_bound(start);
  return Find(start) != nullptr || (it != ranges_.end() && it->first < start + bytes);
}

std::vector<Part> Space::Locate(uint64_t address, size_t bytes) {
  std::vector<Part> parts;
  while (bytes != 0) {
    const Range* const range = Find(address);
    const bool continues = range != nullptr && (parts.empty() || range->kind == Kind::kVirtual);
    if (!continues || !range->is_accessible) return {};
    const size_t at = address - range->start;
    Part part{.bytes = std::min(bytes, range->bytes - at)};
    part.device_bytes = range->device_bytes;
    part.pages = range->pages;
    if (range->is_device()) {
      part.memory = range->device_bytes->shadow() + range->offset + at;
    } else if (range->pages != nullptr) {
      part.memory = range->pages->At(at);
      part.offset = at;
    } else {
      part.memory = reinterpret_cast<uint8_t*>(address);
    }
    address += part.bytes;
    bytes -= part.bytes;
    parts.push_back(std::move(part));
    if (bytes != 0 && range->kind != Kind::kVirtual) return {};
  }
  return parts;
}

void Space::RemoveOf(const Context* context) {
  std::vector<uint64_t> starts;
  for (const auto& [start, range] : ranges_) {
    if (range.context == context) starts.push_back(start);
  }
  for (const uint64_t start : starts) Remove(start);
}

}  // namespace uroce::test_gpu
