// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/verbs/api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::memory_kinds {
namespace {

Api api = {};

struct Function {
  const char* name;
  void* place;
};

}  // namespace

const Api& TheApi() { return api; }

std::string LoadApi() {
  const Function functions[] = {
      {"cuInit", &api.cuInit},
      {"cuGetErrorName", &api.cuGetErrorName},
      {"cuDeviceGetCount", &api.cuDeviceGetCount},
      {"cuDeviceGet", &api.cuDeviceGet},
      {"cuDeviceGetName", &api.cuDeviceGetName},
      {"cuDeviceGetAttribute", &api.cuDeviceGetAttribute},
      {"cuDevicePrimaryCtxRetain", &api.cuDevicePrimaryCtxRetain},
      {"cuDevicePrimaryCtxReset_v2", &api.cuDevicePrimaryCtxReset},
      {"cuCtxCreate_v2", &api.cuCtxCreate},
      {"cuCtxDestroy_v2", &api.cuCtxDestroy},
      {"cuCtxSetCurrent", &api.cuCtxSetCurrent},
      {"cuCtxGetCurrent", &api.cuCtxGetCurrent},
      {"cuMemAlloc_v2", &api.cuMemAlloc},
      {"cuMemFree_v2", &api.cuMemFree},
      {"cuMemAllocAsync", &api.cuMemAllocAsync},
      {"cuMemFreeAsync", &api.cuMemFreeAsync},
      {"cuMemAllocManaged", &api.cuMemAllocManaged},
      {"cuMemHostAlloc", &api.cuMemHostAlloc},
      {"cuMemFreeHost", &api.cuMemFreeHost},
      {"cuMemHostRegister_v2", &api.cuMemHostRegister},
      {"cuMemHostUnregister", &api.cuMemHostUnregister},
      {"cuMemGetAllocationGranularity", &api.cuMemGetAllocationGranularity},
      {"cuMemAddressReserve", &api.cuMemAddressReserve},
      {"cuMemAddressFree", &api.cuMemAddressFree},
      {"cuMemCreate", &api.cuMemCreate},
      {"cuMemRelease", &api.cuMemRelease},
      {"cuMemMap", &api.cuMemMap},
      {"cuMemUnmap", &api.cuMemUnmap},
      {"cuMemSetAccess", &api.cuMemSetAccess},
      {"cuMemGetHandleForAddressRange", &api.cuMemGetHandleForAddressRange},
      {"cuIpcGetMemHandle", &api.cuIpcGetMemHandle},
      {"cuIpcOpenMemHandle_v2", &api.cuIpcOpenMemHandle},
      {"cuIpcCloseMemHandle", &api.cuIpcCloseMemHandle},
      {"cuStreamSynchronize", &api.cuStreamSynchronize},
      {"cuCtxSynchronize", &api.cuCtxSynchronize},
      {"cuMemcpyHtoD_v2", &api.cuMemcpyHtoD},
      {"cuMemcpyDtoH_v2", &api.cuMemcpyDtoH},
      {"cuMemcpyDtoD_v2", &api.cuMemcpyDtoD},
      {"uroceTestPoll", &api.uroceTestPoll},
  };
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return dlerror();
  for (const Function& function : functions) {
    void* const found = dlsym(library, function.name);
    std::memcpy(function.place, &found, sizeof(found));
  }
  const CUresult result = api.cuInit(0);
  int count = 0;
  if (result != kCudaSuccess) return "cuInit: " + NameOf(result);
  if (api.cuDeviceGetCount(&count) != kCudaSuccess || count == 0) return "no device";
  return "";
}

std::string NameOf(CUresult error) {
  const char* name = nullptr;
  if (api.cuGetErrorName(error, &name) == kCudaSuccess && name != nullptr) return name;
  return "error " + std::to_string(error);
}

void Check(CUresult result, const char* what) {
  if (result == kCudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, NameOf(result).c_str());
  std::exit(2);
}

CUcontext UsePrimary(int device) {
  CUcontext context = nullptr;
  Check(api.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(api.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

namespace {

/// Memory of the device of a context, through which the device reaches memory of the host.
struct Scratch {
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
};

CUdeviceptr ScratchOf(size_t bytes) {
  static Scratch scratch;
  CUcontext current = nullptr;
  Check(api.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (scratch.context != current || scratch.bytes < bytes) {
    if (scratch.context == current) api.cuMemFree(scratch.address);
    scratch = {.context = current, .bytes = bytes};
    Check(api.cuMemAlloc(&scratch.address, bytes), "cuMemAlloc");
  }
  return scratch.address;
}

}  // namespace

void WriteBytes(By by, uint64_t address, const Bytes& bytes, bool is_device) {
  if (by == By::kCpu) {
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
  } else if (is_device) {
    Check(api.cuMemcpyHtoD(address, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  } else {
    const CUdeviceptr scratch = ScratchOf(bytes.size());
    Check(api.cuMemcpyHtoD(scratch, bytes.data(), bytes.size()), "cuMemcpyHtoD");
    Check(api.cuMemcpyDtoH(reinterpret_cast<void*>(address), scratch, bytes.size()),
          "cuMemcpyDtoH");
  }
  if (by == By::kGpu) Check(api.cuCtxSynchronize(), "cuCtxSynchronize");
}

Bytes ReadBytes(By by, uint64_t address, size_t length, bool is_device) {
  Bytes bytes(length);
  if (by == By::kCpu) {
    std::memcpy(bytes.data(), reinterpret_cast<void*>(address), length);
  } else if (is_device) {
    Check(api.cuMemcpyDtoH(bytes.data(), address, length), "cuMemcpyDtoH");
  } else {
    const CUdeviceptr scratch = ScratchOf(length);
    Check(api.cuMemcpyHtoD(scratch, reinterpret_cast<void*>(address), length), "cuMemcpyHtoD");
    Check(api.cuMemcpyDtoH(bytes.data(), scratch, length), "cuMemcpyDtoH");
  }
  return bytes;
}

Bytes Pattern(size_t length, uint64_t number) {
  Bytes bytes(length);
  uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  for (size_t at = 0; at < length; at += sizeof(state)) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t word = state ^ (state >> 31);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), length - at));
  }
  return bytes;
}

}  // namespace uroce::memory_kinds
