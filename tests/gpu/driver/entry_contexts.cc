// SPDX-License-Identifier: Apache-2.0
// Entry points: the library, devices and contexts.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "tests/gpu/driver/control.h"
#include "tests/gpu/driver/machine.h"

namespace uroce::test_gpu {
namespace {

constexpr int kVersion = 13000;

struct ErrorName {
  CUresult error;
  const char* name;
};

constexpr ErrorName kErrorNames[] = {
    {kCudaSuccess, "CUDA_SUCCESS"},
    {kCudaInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {kCudaOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {kCudaNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {kCudaDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
    {kCudaInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {kCudaInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {kCudaMapFailed, "CUDA_ERROR_MAP_FAILED"},
    {kCudaInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {kCudaNotFound, "CUDA_ERROR_NOT_FOUND"},
    {kCudaNotReady, "CUDA_ERROR_NOT_READY"},
    {kCudaIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {kCudaContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {kCudaHostMemoryRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {kCudaHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {kCudaNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
};

bool IsDevice(CUdevice device) { return device >= 0 && device < kDevices; }

/// Calls `call` with the primary context of a device.
template <typename Call>
CUresult WithPrimary(CUdevice device, Call call) {
  return WithMachine([&](Machine& machine, Machine::Lock& lock) {
    return IsDevice(device) ? call(machine, lock, machine.primary(device)) : kCudaInvalidDevice;
  });
}

CUresult MakeCurrent(CUcontext handle, bool replaces) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    Context* const context = handle != nullptr ? machine.FindContext(handle) : nullptr;
    const bool is_right = context != nullptr || (handle == nullptr && replaces);
    if (!is_right) return kCudaInvalidContext;
    std::vector<Context*>& stack = CurrentContexts();
    if (replaces && !stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return kCudaSuccess;
  });
}

}  // namespace
}  // namespace uroce::test_gpu

using namespace uroce::test_gpu;

// ---- The library ----

CUresult cuInit(unsigned flags) {
  TheControl();
  return flags == 0 ? Machine::Start() : kCudaInvalidValue;
}

CUresult cuDriverGetVersion(int* version) {
  *version = kVersion;
  return kCudaSuccess;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = nullptr;
  for (const auto& its : kErrorNames) {
    if (its.error == error) *name = its.name;
  }
  return *name != nullptr ? kCudaSuccess : kCudaInvalidValue;
}

CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                             int* status) {
  // As CUDA names them to programs of that version: without the suffix.
  static_cast<void>(version);
  static_cast<void>(flags);
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &library) == 0) return kCudaNotFound;
  void* const handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v4", "_v2", ""}) {
    if (*function == nullptr && handle != nullptr) {
      *function = dlsym(handle, (std::string(symbol) + suffix).c_str());
    }
  }
  if (handle != nullptr) dlclose(handle);
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? kCudaSuccess : kCudaNotFound;
}

// ---- Devices ----

CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return WithMachine([](Machine&, Machine::Lock&) { return kCudaSuccess; });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return WithPrimary(ordinal, [](Machine&, Machine::Lock&, Context&) { return kCudaSuccess; });
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(bytes), "uroce test device %d", device);
  return WithPrimary(device, [](Machine&, Machine::Lock&, Context&) { return kCudaSuccess; });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case kDeviceMajor:
      *value = 9;
      break;
    case kDeviceCanMapHost:
    case kDeviceUnifiedAddressing:
    case kDeviceManagedMemory:
    case kDeviceVirtualMemory:
    case kDeviceGpuDirectWithVirtualMemory:
    case kDeviceMemoryPools:
    case kDeviceGpuDirect:
    case kDeviceDmabuf:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return WithPrimary(device, [](Machine&, Machine::Lock&, Context&) { return kCudaSuccess; });
}

// ---- Primary contexts ----

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return WithPrimary(device, [context](Machine& machine, Machine::Lock&, Context& primary) {
    ++primary.retained;
    if (!primary.is_alive) machine.Revive(primary);
    *context = &primary;
    return kCudaSuccess;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return WithPrimary(device, [](Machine& machine, Machine::Lock& lock, Context& primary) {
    if (primary.retained == 0) return kCudaInvalidContext;
    if (--primary.retained == 0 && primary.is_alive) machine.EndContext(lock, primary);
    return kCudaSuccess;
  });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return WithPrimary(device, [](Machine& machine, Machine::Lock& lock, Context& primary) {
    if (primary.is_alive) machine.EndContext(lock, primary);
    return kCudaSuccess;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* is_active) {
  return WithPrimary(device, [&](Machine&, Machine::Lock&, Context& primary) {
    *flags = 0;
    *is_active = primary.is_alive ? 1 : 0;
    return kCudaSuccess;
  });
}

// ---- Contexts ----

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  static_cast<void>(flags);
  return WithPrimary(device, [&](Machine& machine, Machine::Lock&, Context&) {
    Context& made = machine.MakeContext(device);
    CurrentContexts().push_back(&made);
    *context = &made;
    return kCudaSuccess;
  });
}

CUresult cuCtxCreate_v4(CUcontext* context, void* parameters, unsigned flags, CUdevice device) {
  return parameters == nullptr ? cuCtxCreate_v2(context, flags, device) : kCudaNotSupported;
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  return WithMachine([handle](Machine& machine, Machine::Lock& lock) {
    Context* const context = machine.FindContext(handle);
    if (context == nullptr || context->is_primary) return kCudaInvalidContext;
    machine.EndContext(lock, *context);
    std::vector<Context*>& stack = CurrentContexts();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return kCudaSuccess;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) { return MakeCurrent(context, /*replaces=*/false); }

CUresult cuCtxSetCurrent(CUcontext context) { return MakeCurrent(context, /*replaces=*/true); }

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return WithMachine([context](Machine&, Machine::Lock&) {
    std::vector<Context*>& stack = CurrentContexts();
    if (stack.empty()) return kCudaInvalidContext;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return kCudaSuccess;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return WithMachine([context](Machine&, Machine::Lock&) {
    const std::vector<Context*>& stack = CurrentContexts();
    *context = stack.empty() ? nullptr : stack.back();
    return kCudaSuccess;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return WithContext([device](Machine&, Machine::Lock&, Context& context) {
    *device = context.device;
    return kCudaSuccess;
  });
}

CUresult cuCtxSynchronize() {
  return WithContext([](Machine& machine, Machine::Lock& lock, Context& context) {
    return machine.AwaitAll(lock, context);
  });
}
