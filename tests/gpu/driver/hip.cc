// SPDX-License-Identifier: Apache-2.0
// Entry points: those functions of HIP's runtime that the shim uses. Each thread has the error of
// its last call that failed, as with HIP.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/gpu/cuda.h"

namespace {

thread_local int last_error = kCudaSuccess;

int Keep(CUresult result) {
  if (result != kCudaSuccess) last_error = result;
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int hipGetLastError() {
  const int error = last_error;
  last_error = kCudaSuccess;
  return error;
}

/// 6.0, or what UROCE_TEST_HIP_VERSION says.
int hipRuntimeGetVersion(int* version) {
  const char* const text = getenv("UROCE_TEST_HIP_VERSION");
  *version = text != nullptr ? atoi(text) : 60'000'000;
  return kCudaSuccess;
}

int hipPeekAtLastError() { return last_error; }

int hipPointerGetAttribute(void* value, int attribute, void* address) {
  return Keep(cuPointerGetAttribute(value, static_cast<CUpointer_attribute>(attribute),
                                    reinterpret_cast<CUdeviceptr>(address)));
}

int hipDeviceGet(int* device, int ordinal) { return Keep(cuDeviceGet(device, ordinal)); }

int hipDevicePrimaryCtxRetain(CUcontext* context, int device) {
  return Keep(cuDevicePrimaryCtxRetain(context, device));
}

int hipCtxPushCurrent(CUcontext context) { return Keep(cuCtxPushCurrent_v2(context)); }

int hipCtxPopCurrent(CUcontext* context) { return Keep(cuCtxPopCurrent_v2(context)); }

int hipStreamCreateWithFlags(CUstream* stream, unsigned flags) {
  return Keep(cuStreamCreate(stream, flags));
}

int hipStreamSynchronize(CUstream stream) { return Keep(cuStreamSynchronize(stream)); }

int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, CUstream stream) {
  return Keep(cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream));
}

int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, CUstream stream) {
  return Keep(cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream));
}

int hipHostRegister(void* memory, size_t bytes, unsigned flags) {
  return Keep(cuMemHostRegister_v2(memory, bytes, flags));
}

int hipHostUnregister(void* memory) { return Keep(cuMemHostUnregister(memory)); }

}  // extern "C"
#pragma GCC visibility pop
