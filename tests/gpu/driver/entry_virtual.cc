// SPDX-License-Identifier: Apache-2.0
// Entry points: addresses and memory that programs join themselves, and memory of other processes.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "tests/gpu/driver/machine.h"

namespace uroce::test_gpu {
namespace {

constexpr size_t kGranularity = 2 << 20;

/// Handles of cuMemCreate. The lock of the machine; fork children have no machine.
std::map<CUmemGenericAllocationHandle, std::shared_ptr<DeviceBytes>> created;
CUmemGenericAllocationHandle next_handle = 1;

bool IsWhole(size_t bytes) { return bytes != 0 && bytes % kGranularity == 0; }

bool IsOfDevice(const CUmemLocation& location) {
  return location.type == kLocationDevice && location.id >= 0 && location.id < kDevices;
}

/// How the handle of another process's memory is laid out.
struct Ticket {
  char name[16];
  pid_t process;
  int fd;
  int device;
  size_t bytes;        // Of the file.
  size_t given_bytes;  // Of the allocation.
};
static_assert(sizeof(Ticket) <= sizeof(CUipcMemHandle));
constexpr char kTicketName[16] = "uroce-test-gpu";

}  // namespace
}  // namespace uroce::test_gpu

using namespace uroce::test_gpu;

// ---- Virtual memory ----

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties, int) {
  *bytes = kGranularity;
  return IsOfDevice(properties->location) ? kCudaSuccess : kCudaInvalidDevice;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             uint64_t) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    if (!IsWhole(bytes)) return kCudaInvalidValue;
    *address = machine.space.Reserve(bytes, alignment > kGranularity ? alignment : kGranularity);
    return *address != 0 ? kCudaSuccess : kCudaOutOfMemory;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    if (machine.space.Overlaps(address, bytes)) return kCudaInvalidValue;
    return machine.space.Unreserve(address, bytes) ? kCudaSuccess : kCudaInvalidValue;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, uint64_t) {
  return WithMachine([&](Machine&, Machine::Lock&) {
    const bool is_right = IsWhole(bytes) && properties->type == kAllocationPinned;
    if (!is_right || !IsOfDevice(properties->location)) return kCudaInvalidValue;
    auto made = DeviceBytes::Make(properties->location.id, bytes);
    if (made == nullptr) return kCudaOutOfMemory;
    *handle = next_handle++;
    created[*handle] = std::move(made);
    return kCudaSuccess;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return WithMachine([handle](Machine&, Machine::Lock&) {
    return created.erase(handle) != 0 ? kCudaSuccess : kCudaInvalidValue;
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, uint64_t) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const auto it = created.find(handle);
    const bool fits = it != created.end() && IsWhole(bytes) && offset % kGranularity == 0 &&
                      offset <= it->second->bytes() && bytes <= it->second->bytes() - offset;
    if (!fits || !machine.space.IsReserved(address, bytes)) return kCudaInvalidValue;
    if (machine.space.Overlaps(address, bytes)) return kCudaInvalidValue;
    machine.space.Add({.start = address,
                       .bytes = bytes,
                       .kind = Kind::kVirtual,
                       .device = it->second->device(),
                       .device_bytes = it->second,
                       .offset = offset,
                       .is_accessible = false});
    return kCudaSuccess;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* rights,
                        size_t count) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    for (const CUdeviceptr end = address + bytes; address < end;) {
      Range* const range = machine.space.Find(address);
      if (range == nullptr || range->kind != Kind::kVirtual) return kCudaInvalidValue;
      for (size_t i = 0; i < count; ++i) {
        if (!IsOfDevice(rights[i].location)) return kCudaInvalidDevice;
        if (rights[i].location.id == range->device) {
          range->is_accessible = rights[i].flags == kAccessReadWrite;
        }
      }
      address = range->start + range->bytes;
    }
    return kCudaSuccess;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    for (const CUdeviceptr end = address + bytes; address < end;) {
      const Range* const range = machine.space.Find(address);
      const bool is_right = range != nullptr && range->kind == Kind::kVirtual &&
                            range->start == address && range->bytes <= end - address;
      if (!is_right) return kCudaInvalidValue;
      const size_t its_bytes = range->bytes;
      machine.space.Remove(address);
      address += its_bytes;
    }
    return kCudaSuccess;
  });
}

// ---- Memory for others ----

// The file has no bytes: as with CUDA's driver, the CPU reaches none of them by it.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes, int type,
                                       uint64_t) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const Range* const range = machine.space.Find(address);
    const bool is_right = type == kRangeDmabufFd && range != nullptr && range->is_device() &&
                          !machine.space.Locate(address, bytes).empty();
    if (!is_right) return kCudaInvalidValue;
    const int fd = eventfd(0, EFD_CLOEXEC);
    *static_cast<int*>(handle) = fd;
    return fd >= 0 ? kCudaSuccess : kCudaOutOfMemory;
  });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return WithContext([&](Machine& machine, Machine::Lock&, Context&) {
    const Range* const range = machine.space.Find(address);
    const bool is_right = range != nullptr && range->kind == Kind::kAllocated;
    if (!is_right) return kCudaInvalidValue;
    Ticket ticket = {.name = {},
                     .process = getpid(),
                     .fd = range->device_bytes->fd(),
                     .device = range->device,
                     .bytes = range->device_bytes->bytes(),
                     .given_bytes = range->bytes};
    std::memcpy(ticket.name, kTicketName, sizeof(ticket.name));
    *handle = {};
    std::memcpy(handle, &ticket, sizeof(ticket));
    return kCudaSuccess;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  Ticket ticket;
  std::memcpy(&ticket, &handle, sizeof(ticket));
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    const bool is_one = std::memcmp(ticket.name, kTicketName, sizeof(ticket.name)) == 0;
    if (!is_one || (flags & kIpcLazyPeerAccess) == 0) return kCudaInvalidValue;
    if (ticket.process == getpid()) return kCudaInvalidContext;
    const std::string path =
        "/proc/" + std::to_string(ticket.process) + "/fd/" + std::to_string(ticket.fd);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    auto bytes = fd >= 0 ? DeviceBytes::Import(ticket.device, fd, ticket.bytes) : nullptr;
    const uint64_t start = bytes != nullptr ? machine.space.Reserve(ticket.bytes, kGranularity) : 0;
    if (start == 0) return kCudaMapFailed;
    machine.space.Add({.start = start,
                       .bytes = ticket.given_bytes,
                       .kind = Kind::kImported,
                       .device = ticket.device,
                       .context = &context,
                       .device_bytes = std::move(bytes)});
    *address = start;
    return kCudaSuccess;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return WithMachine([address](Machine& machine, Machine::Lock& lock) {
    const Range* const range = machine.space.Find(address);
    const bool is_right =
        range != nullptr && range->kind == Kind::kImported && range->start == address;
    if (!is_right) return kCudaInvalidValue;
    const CUresult result = machine.AwaitAll(lock, *range->context);
    machine.space.Remove(address);
    return result;
  });
}
