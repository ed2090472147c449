// SPDX-License-Identifier: Apache-2.0
// The driver of CUDA as this program finds it on the machine, and copies by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/cuda.h"

namespace uroce::memory_kinds {

using Bytes = std::vector<uint8_t>;

/// Functions of libcuda.so.1; null where the library has none of that name.
struct Api {
  decltype(&::cuInit) cuInit;
  decltype(&::cuGetErrorName) cuGetErrorName;
  decltype(&::cuDeviceGetCount) cuDeviceGetCount;
  decltype(&::cuDeviceGet) cuDeviceGet;
  decltype(&::cuDeviceGetName) cuDeviceGetName;
  decltype(&::cuDeviceGetAttribute) cuDeviceGetAttribute;
  decltype(&::cuDevicePrimaryCtxRetain) cuDevicePrimaryCtxRetain;
  decltype(&::cuDevicePrimaryCtxReset_v2) cuDevicePrimaryCtxReset;
  decltype(&::cuCtxCreate_v2) cuCtxCreate;
  decltype(&::cuCtxDestroy_v2) cuCtxDestroy;
  decltype(&::cuCtxSetCurrent) cuCtxSetCurrent;
  decltype(&::cuCtxGetCurrent) cuCtxGetCurrent;
  decltype(&::cuMemAlloc_v2) cuMemAlloc;
  decltype(&::cuMemFree_v2) cuMemFree;
  decltype(&::cuMemAllocAsync) cuMemAllocAsync;
  decltype(&::cuMemFreeAsync) cuMemFreeAsync;
  decltype(&::cuMemAllocManaged) cuMemAllocManaged;
  decltype(&::cuMemHostAlloc) cuMemHostAlloc;
  decltype(&::cuMemFreeHost) cuMemFreeHost;
  decltype(&::cuMemHostRegister_v2) cuMemHostRegister;
  decltype(&::cuMemHostUnregister) cuMemHostUnregister;
  decltype(&::cuMemGetAllocationGranularity) cuMemGetAllocationGranularity;
  decltype(&::cuMemAddressReserve) cuMemAddressReserve;
  decltype(&::cuMemAddressFree) cuMemAddressFree;
  decltype(&::cuMemCreate) cuMemCreate;
  decltype(&::cuMemRelease) cuMemRelease;
  decltype(&::cuMemMap) cuMemMap;
  decltype(&::cuMemUnmap) cuMemUnmap;
  decltype(&::cuMemSetAccess) cuMemSetAccess;
  decltype(&::cuMemGetHandleForAddressRange) cuMemGetHandleForAddressRange;
  decltype(&::cuIpcGetMemHandle) cuIpcGetMemHandle;
  decltype(&::cuIpcOpenMemHandle_v2) cuIpcOpenMemHandle;
  decltype(&::cuIpcCloseMemHandle) cuIpcCloseMemHandle;
  decltype(&::cuStreamSynchronize) cuStreamSynchronize;
  decltype(&::cuCtxSynchronize) cuCtxSynchronize;
  decltype(&::cuMemcpyHtoD_v2) cuMemcpyHtoD;
  decltype(&::cuMemcpyDtoH_v2) cuMemcpyDtoH;
  decltype(&::cuMemcpyDtoD_v2) cuMemcpyDtoD;
  decltype(&::uroceTestPoll) uroceTestPoll;  ///< Only the driver for tests has it.
};

/// That of this process.
const Api& TheApi();
/// Loads the driver; returns why there is none, or "".
std::string LoadApi();

/// The name of an error of the driver, or its number.
std::string NameOf(CUresult error);
/// Ends the program with status 2 unless `result` is success.
void Check(CUresult result, const char* what);

/// The primary context of a device, current from then on.
CUcontext UsePrimary(int device);

/// Whether the CPU, or a device, reads and writes bytes.
enum class By : uint8_t { kCpu, kGpu };

/// Writes by the CPU; or by the copy engine of the current context's device.
void WriteBytes(By by, uint64_t address, const Bytes& bytes, bool is_device);
Bytes ReadBytes(By by, uint64_t address, size_t length, bool is_device);

/// Bytes that differ for each `number`.
Bytes Pattern(size_t length, uint64_t number);

}  // namespace uroce::memory_kinds
