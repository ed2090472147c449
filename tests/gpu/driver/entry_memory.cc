// SPDX-License-Identifier: Apache-2.0
// Entry points: memory of devices and of the host, and what addresses are.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tests/gpu/driver/machine.h"

namespace uroce::test_gpu {
namespace {

constexpr size_t kAlignment = 4096;  // Of allocations. CUDA promises 256 bytes.
constexpr size_t kPageBytes = 4096;

size_t WholePages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

CUresult Allocate(Machine& machine, Context& context, Kind kind, size_t bytes,
                  CUdeviceptr* address) {
  if (bytes == 0) return kCudaInvalidValue;
  auto device_bytes = DeviceBytes::Make(context.device, WholePages(bytes));
  const uint64_t start =
      device_bytes != nullptr ? machine.space.Reserve(WholePages(bytes), kAlignment) : 0;
  if (start == 0) return kCudaOutOfMemory;
  machine.space.Add({.start = start,
                     .bytes = bytes,
                     .kind = kind,
                     .device = context.device,
                     .context = &context,
                     .device_bytes = std::move(device_bytes)});
  *address = start;
  return kCudaSuccess;
}

/// Host memory that the driver makes: shared pages, as CUDA has them, or with `kManaged` private
/// pages of a file, which the kernel cannot lend to others.
CUresult AllocateHost(Machine& machine, Context& context, Kind kind, size_t bytes, void** memory) {
  if (bytes == 0) return kCudaInvalidValue;
  int fd = -1;
  int flags = MAP_SHARED | MAP_ANONYMOUS;
  if (kind == Kind::kManaged) {
    fd = memfd_create("uroce-test-gpu-managed", MFD_CLOEXEC);
    flags = MAP_PRIVATE;
    if (ftruncate(fd, static_cast<off_t>(WholePages(bytes))) != 0) return kCudaOutOfMemory;
  }
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (fd >= 0) close(fd);
  if (made == MAP_FAILED) return kCudaOutOfMemory;
  machine.space.Add({.start = reinterpret_cast<uint64_t>(made),
                     .bytes = bytes,
                     .kind = kind,
                     .device = context.device,
                     .context = &context});
  *memory = made;
  return kCudaSuccess;
}

/// Ends the range that begins at `address`, if it is of one of `kinds`, behind all work.
CUresult EndRange(Machine& machine, Machine::Lock& lock, uint64_t address,
                  std::initializer_list<Kind> kinds, CUresult otherwise) {
  const auto find = [&]() -> Range* {
    Range* const range = machine.space.Find(address);
    const bool is_one = range != nullptr && range->start == address &&
                        std::find(kinds.begin(), kinds.end(), range->kind) != kinds.end();
    return is_one ? range : nullptr;
  };
  Range* const range = find();
  if (range == nullptr) return otherwise;
  const CUresult result = machine.AwaitAll(lock, *range->context);
  if (find() == nullptr) return otherwise;
  machine.space.Remove(address);
  return result;
}

}  // namespace
}  // namespace uroce::test_gpu

using namespace uroce::test_gpu;

// ---- Memory of devices ----

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    return Allocate(machine, context, Kind::kAllocated, bytes, address);
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  if (address == 0) return kCudaSuccess;
  return WithMachine([address](Machine& machine, Machine::Lock& lock) {
    return EndRange(machine, lock, address, {Kind::kAllocated, Kind::kPool, Kind::kManaged},
                    kCudaInvalidValue);
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (result != kCudaSuccess) return result;
    return Allocate(machine, *stream->context, Kind::kPool, bytes, address);
  });
}

// The memory ends behind the work of its context, as it would behind that of the stream.
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return WithMachine([&](Machine& machine, Machine::Lock& lock) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (result != kCudaSuccess) return result;
    return EndRange(machine, lock, address, {Kind::kAllocated, Kind::kPool}, kCudaInvalidValue);
  });
}

// ---- Memory of the host ----

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  if ((flags & kAttachGlobal) == 0) return kCudaInvalidValue;
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    void* memory = nullptr;
    const CUresult result = AllocateHost(machine, context, Kind::kManaged, bytes, &memory);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return result;
  });
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = kHostPortable | kHostDeviceMap | kHostWriteCombined;
  if ((flags & ~kKnown) != 0) return kCudaInvalidValue;
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    return AllocateHost(machine, context, Kind::kHost, bytes, memory);
  });
}

CUresult cuMemFreeHost(void* memory) {
  return WithMachine([memory](Machine& machine, Machine::Lock& lock) {
    return EndRange(machine, lock, reinterpret_cast<uint64_t>(memory), {Kind::kHost},
                    kCudaInvalidValue);
  });
}

CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned) {
  const auto start = reinterpret_cast<uint64_t>(memory);
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    if (bytes == 0 || machine.space.IsOfDevices(start)) return kCudaInvalidValue;
    if (machine.space.Overlaps(start, bytes)) return kCudaHostMemoryRegistered;
    auto pages = PinnedPages::Make(memory, bytes);
    if (pages == nullptr) return kCudaInvalidValue;
    machine.space.Add({.start = start,
                       .bytes = bytes,
                       .kind = Kind::kRegistered,
                       .device = context.device,
                       .context = &context,
                       .pages = std::move(pages)});
    return kCudaSuccess;
  });
}

CUresult cuMemHostUnregister(void* memory) {
  return WithMachine([memory](Machine& machine, Machine::Lock& lock) {
    return EndRange(machine, lock, reinterpret_cast<uint64_t>(memory), {Kind::kRegistered},
                    kCudaHostMemoryNotRegistered);
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const auto start = reinterpret_cast<uint64_t>(memory);
    const Range* const range = machine.space.Find(start);
    if (range == nullptr || range->is_device()) return kCudaInvalidValue;
    *address = start;
    return kCudaSuccess;
  });
}

CUresult uroceTestPinsPages(int* pins) {
  *pins = PinnedPages::ArePinned() ? 1 : 0;
  return kCudaSuccess;
}

// ---- What an address is ----

namespace {

template <typename Value>
CUresult Give(void* place, Value value) {
  *static_cast<Value*>(place) = value;
  return kCudaSuccess;
}

CUresult AttributeOf(const Range& range, uint64_t address, CUpointer_attribute attribute,
                     void* value) {
  const bool has_context = range.kind != Kind::kPool && range.kind != Kind::kVirtual;
  // Managed memory counts as memory of a device, which it may be.
  const bool is_device = range.is_device() || range.kind == Kind::kManaged;
  const bool is_for_cpu = !range.is_device();
  switch (attribute) {
    case kPointerContext:
      return Give<CUcontext>(value, has_context ? range.context : nullptr);
    case kPointerMemoryType:
      return Give(value, is_device ? kMemoryTypeDevice : kMemoryTypeHost);
    case kPointerDevicePointer:
      return Give<CUdeviceptr>(value, address);
    case kPointerHostPointer:
      Give<void*>(value, is_for_cpu ? reinterpret_cast<void*>(address) : nullptr);
      return is_for_cpu ? kCudaSuccess : kCudaInvalidValue;
    case kPointerSyncMemops:
      return kCudaNotSupported;
    case kPointerBufferId:
      return Give<uint64_t>(value, range.buffer_id);
    case kPointerIsManaged:
      return Give<unsigned>(value, range.kind == Kind::kManaged ? 1 : 0);
    case kPointerDeviceOrdinal:
      return Give<int>(value, range.device);
    case kPointerIsIpcCapable:
      return Give<unsigned>(value, range.kind == Kind::kAllocated ? 1 : 0);
    case kPointerRangeStart:
      return Give<CUdeviceptr>(value, range.start);
    case kPointerRangeSize:
      return Give<size_t>(value, range.bytes);
    case kPointerMapped:
      return Give<unsigned>(value, 1);
    case kPointerIsGpuDirectCapable:
      return Give<unsigned>(value, range.is_device() ? 1 : 0);
  }
  return kCudaInvalidValue;
}

size_t BytesOf(CUpointer_attribute attribute) {
  switch (attribute) {
    case kPointerMemoryType:
    case kPointerIsManaged:
    case kPointerDeviceOrdinal:
    case kPointerIsIpcCapable:
    case kPointerMapped:
    case kPointerIsGpuDirectCapable:
      return sizeof(unsigned);
    default:
      return sizeof(uint64_t);
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const Range* const range = machine.space.Find(address);
    return range != nullptr ? AttributeOf(*range, address, attribute, value) : kCudaInvalidValue;
  });
}

// Zeros where the address is unknown.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const Range* const range = machine.space.Find(address);
    for (unsigned i = 0; i < count; ++i) {
      auto* const bytes = static_cast<uint8_t*>(values[i]);
      std::fill_n(bytes, BytesOf(attributes[i]), uint8_t{0});
      if (range != nullptr) AttributeOf(*range, address, attributes[i], values[i]);
      if (range == nullptr && attributes[i] == kPointerDeviceOrdinal) Give<int>(values[i], -2);
    }
    return kCudaSuccess;
  });
}

CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr address) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    const Range* const range = machine.space.Find(address);
    const bool is_right = attribute == kPointerSyncMemops && range != nullptr && range->is_device();
    return is_right ? kCudaSuccess : kCudaInvalidValue;
  });
}
