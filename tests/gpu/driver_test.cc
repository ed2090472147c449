// SPDX-License-Identifier: Apache-2.0
// The driver for tests is as strict as CUDA's: what it refuses, and what it promises of order.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/cuda.h"
#include "tests/gpu/driver/control.h"

namespace uroce::test_gpu {
namespace {

constexpr size_t kBytes = 64 << 10;

/// The words that the driver of this process reads: of its file, since a library has its own.
Control& Words() {
  static auto* const words = [] {
    char path[] = "/dev/shm/uroce-test-gpu-XXXXXX";
    const int fd = mkstemp(path);
    EXPECT_EQ(ftruncate(fd, 4096), 0);
    setenv("UROCE_TEST_GPU_CONTROL", path, 1);
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    EXPECT_EQ(cuInit(0), kCudaSuccess);
    unlink(path);
    return static_cast<Control*>(memory);
  }();
  return *words;
}

std::vector<uint8_t> Pattern(size_t bytes, uint8_t seed) {
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<uint8_t>(i * 31 + i / 251 + seed);
  return pattern;
}

std::vector<uint8_t> DeviceBytesAt(CUdeviceptr address, size_t bytes) {
  std::vector<uint8_t> host(bytes);
  EXPECT_EQ(cuMemcpyDtoH_v2(host.data(), address, bytes), kCudaSuccess);
  return host;
}

/// What a child process returns that calls `call`.
template <typename Call>
int InChild(Call call) {
  const pid_t child = fork();
  if (child == 0) _exit(call());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Has the primary context of device 0 current.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Words();
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), kCudaSuccess);
    ASSERT_EQ(cuCtxPushCurrent_v2(context_), kCudaSuccess);
    ASSERT_EQ(cuMemAlloc_v2(&memory_, kBytes), kCudaSuccess);
  }

  void TearDown() override {
    Control& words = Words();
    std::memset(&words, 0, offsetof(Control, copies));
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxReset_v2(1);
    CUcontext popped;
    while (cuCtxPopCurrent_v2(&popped) == kCudaSuccess) continue;
    cuDevicePrimaryCtxRelease_v2(0);
  }

  CUcontext context_ = nullptr;
  CUdeviceptr memory_ = 0;
};

// ---- Memory ----

TEST_F(DriverTest, CopiesThereAndBackHaveTheSameBytes) {
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{4097}, kBytes}) {
    const std::vector<uint8_t> sent = Pattern(bytes, 3);
    ASSERT_EQ(cuMemcpyHtoD_v2(memory_ + kBytes - bytes, sent.data(), bytes), kCudaSuccess);
    EXPECT_EQ(DeviceBytesAt(memory_ + kBytes - bytes, bytes), sent) << bytes;
  }
}

TEST_F(DriverTest, TheCpuReachesNoByteOfADevice) {
  const std::vector<uint8_t> sent = Pattern(8, 1);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, sent.data(), 8), kCudaSuccess);
  EXPECT_NE(InChild([this] {
              static_cast<void>(*reinterpret_cast<volatile uint8_t*>(memory_));
              return 77;
            }),
            77);
}

TEST_F(DriverTest, CopiesOutOfTheAllocationAreRefused) {
  uint8_t bytes[16] = {};
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_ + kBytes - 15, bytes, 16), kCudaInvalidValue);
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, memory_ - 1, 1), kCudaInvalidValue);
  EXPECT_EQ(cuMemcpyDtoD_v2(memory_, memory_ + 1, kBytes), kCudaInvalidValue);
  EXPECT_EQ(cuMemFree_v2(memory_ + 8), kCudaInvalidValue);
  EXPECT_EQ(cuMemFree_v2(memory_), kCudaSuccess);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, bytes, 16), kCudaInvalidValue);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, kPointerMemoryType, memory_), kCudaInvalidValue);
}

TEST_F(DriverTest, AddressesTellWhatTheyAre) {
  CUcontext context = nullptr;
  unsigned type = 0;
  uint64_t id = 0;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  int device = -1;
  EXPECT_EQ(cuPointerGetAttribute(&context, kPointerContext, memory_ + 5), kCudaSuccess);
  EXPECT_EQ(context, context_);
  EXPECT_EQ(cuPointerGetAttribute(&type, kPointerMemoryType, memory_), kCudaSuccess);
  EXPECT_EQ(type, kMemoryTypeDevice);
  CUpointer_attribute wanted[] = {kPointerBufferId, kPointerRangeStart, kPointerRangeSize,
                                  kPointerDeviceOrdinal};
  void* values[] = {&id, &start, &bytes, &device};
  EXPECT_EQ(cuPointerGetAttributes(4, wanted, values, memory_ + 9), kCudaSuccess);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(start, memory_);
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(device, 0);
  int local = 0;
  EXPECT_EQ(cuPointerGetAttributes(4, wanted, values, reinterpret_cast<uint64_t>(&local)),
            kCudaSuccess);
  EXPECT_EQ(id, 0u);
}

TEST_F(DriverTest, PoolsNameNoContextAndManagedMemoryIsForBoth) {
  CUdeviceptr of_pool = 0;
  CUcontext context = context_;
  ASSERT_EQ(cuMemAllocAsync(&of_pool, 100, nullptr), kCudaSuccess);
  EXPECT_EQ(cuPointerGetAttribute(&context, kPointerContext, of_pool), kCudaSuccess);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(cuMemFreeAsync(of_pool, nullptr), kCudaSuccess);

  CUdeviceptr managed = 0;
  unsigned is_managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, kAttachGlobal), kCudaSuccess);
  EXPECT_EQ(cuPointerGetAttribute(&is_managed, kPointerIsManaged, managed), kCudaSuccess);
  EXPECT_EQ(is_managed, 1u);
  ASSERT_EQ(cuMemsetD8_v2(managed, 0x5a, 4096), kCudaSuccess);
  EXPECT_EQ(*reinterpret_cast<uint8_t*>(managed + 4095), 0x5a);
  EXPECT_EQ(cuMemFree_v2(managed), kCudaSuccess);
}

TEST_F(DriverTest, VirtualMappingsAreReachedAcrossTheirSeam) {
  constexpr size_t kHalf = 2 << 20;
  const CUmemAllocationProp properties = {
      .type = kAllocationPinned, .location = {kLocationDevice, 0}, .flags = {}};
  CUdeviceptr start = 0;
  CUmemGenericAllocationHandle handles[2];
  ASSERT_EQ(cuMemAddressReserve(&start, 2 * kHalf, 0, 0, 0), kCudaSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cuMemCreate(&handles[i], kHalf, &properties, 0), kCudaSuccess);
    ASSERT_EQ(cuMemMap(start + static_cast<size_t>(i) * kHalf, kHalf, 0, handles[i], 0),
              kCudaSuccess);
    EXPECT_EQ(cuMemRelease(handles[i]), kCudaSuccess);
  }
  const std::vector<uint8_t> sent = Pattern(1000, 9);
  EXPECT_EQ(cuMemcpyHtoD_v2(start + kHalf - 500, sent.data(), 1000), kCudaInvalidValue);
  const CUmemAccessDesc rights = {{kLocationDevice, 0}, kAccessReadWrite};
  ASSERT_EQ(cuMemSetAccess(start, 2 * kHalf, &rights, 1), kCudaSuccess);
  ASSERT_EQ(cuMemcpyHtoD_v2(start + kHalf - 500, sent.data(), 1000), kCudaSuccess);
  EXPECT_EQ(DeviceBytesAt(start + kHalf - 500, 1000), sent);
  EXPECT_EQ(cuMemAddressFree(start, 2 * kHalf), kCudaInvalidValue);
  EXPECT_EQ(cuMemUnmap(start, 2 * kHalf), kCudaSuccess);
  EXPECT_EQ(cuMemAddressFree(start, 2 * kHalf), kCudaSuccess);
}

TEST_F(DriverTest, RegisteredMemoryStaysTheSamePages) {
  int pins = 0;
  ASSERT_EQ(uroceTestPinsPages(&pins), kCudaSuccess);
  if (pins == 0) GTEST_SKIP() << "no io_uring, which pins pages";
  void* const host =
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(host, 1, 8192);
  ASSERT_EQ(cuMemHostRegister_v2(host, 8192, 0), kCudaSuccess);
  EXPECT_EQ(cuMemHostRegister_v2(host, 8192, 0), kCudaHostMemoryRegistered);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 8192), kCudaSuccess);
  EXPECT_EQ(DeviceBytesAt(memory_, 8192), std::vector<uint8_t>(8192, 1));

  // Other pages at the same addresses.
  mmap(host, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::memset(host, 2, 8192);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 8192), kCudaSuccess);
  EXPECT_EQ(DeviceBytesAt(memory_, 8192), std::vector<uint8_t>(8192, 1));
  ASSERT_EQ(cuMemcpyDtoH_v2(host, memory_, 8192), kCudaSuccess);
  EXPECT_EQ(*static_cast<uint8_t*>(host), 2);
  EXPECT_EQ(cuMemHostUnregister(host), kCudaSuccess);
  EXPECT_EQ(cuMemHostUnregister(host), kCudaHostMemoryNotRegistered);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 8192), kCudaSuccess);
  EXPECT_EQ(DeviceBytesAt(memory_, 8192), std::vector<uint8_t>(8192, 2));
  munmap(host, 8192);
}

TEST_F(DriverTest, PinsAreNotCounted) {
  void* const host =
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(cuMemHostRegister_v2(host, 8192, 0), kCudaSuccess);
  FILE* const status = std::fopen("/proc/self/status", "r");
  char line[200];
  std::string pinned;
  while (std::fgets(line, sizeof(line), status) != nullptr) {
    if (std::strncmp(line, "VmPin:", 6) == 0) pinned = line + 6;
  }
  std::fclose(status);
  if (geteuid() == 0) {
    EXPECT_EQ(std::atoi(pinned.c_str()), 0);
  }
  cuMemHostUnregister(host);
  munmap(host, 8192);
}

TEST_F(DriverTest, AnotherProcessImportsMemory) {
  CUipcMemHandle handle;
  ASSERT_EQ(cuIpcGetMemHandle(&handle, memory_), kCudaSuccess);
  CUdeviceptr imported = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&imported, handle, kIpcLazyPeerAccess), kCudaInvalidContext);
  handle.reserved[0] = 'x';
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&imported, handle, kIpcLazyPeerAccess), kCudaInvalidValue);
}

// ---- Order ----

TEST_F(DriverTest, AsynchronousCopiesRunLaterAndInTheOrderOfTheirStream) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  Words().hang_copy = 1;
  std::vector<uint8_t> first = Pattern(kBytes, 1);
  std::vector<uint8_t> second = Pattern(kBytes, 2);
  std::vector<uint8_t> got(kBytes);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, first.data(), kBytes, stream), kCudaSuccess);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, second.data(), kBytes, stream), kCudaSuccess);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(got.data(), memory_, kBytes, stream), kCudaSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kCudaNotReady);
  EXPECT_EQ(got, std::vector<uint8_t>(kBytes));
  Words().hang_copy = 0;
  EXPECT_EQ(cuStreamSynchronize(stream), kCudaSuccess);
  EXPECT_EQ(got, second);
}

TEST_F(DriverTest, ACopyBehindAnotherBecomesVisibleBehindIt) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  for (uint64_t round = 1; round <= 50; ++round) {
    Words().seed = static_cast<uint32_t>(round);
    std::vector<uint8_t> seen(kBytes - 8);
    const std::vector<uint8_t> sent = Pattern(kBytes - 8, static_cast<uint8_t>(round));
    // The kernel is on the null stream, for which a stream that does not block does not wait.
    ASSERT_EQ(uroceTestPoll(memory_, round, memory_ + 8, kBytes - 8, seen.data(), nullptr),
              kCudaSuccess);
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_ + 8, sent.data(), kBytes - 8, stream), kCudaSuccess);
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, &round, 8, stream), kCudaSuccess);
    ASSERT_EQ(cuStreamSynchronize(stream), kCudaSuccess);
    ASSERT_EQ(cuStreamSynchronize(nullptr), kCudaSuccess);
    ASSERT_EQ(seen, sent) << round;
  }
}

TEST_F(DriverTest, BytesWithinACopyHaveNoOrder) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  bool was_early = false;
  for (uint64_t round = 1; round <= 2000 && !was_early; ++round) {
    Words().seed = static_cast<uint32_t>(round);
    std::vector<uint8_t> seen(kBytes - 8);
    std::vector<uint8_t> sent = Pattern(kBytes, static_cast<uint8_t>(round));
    std::memcpy(sent.data() + kBytes - 8, &round, 8);
    ASSERT_EQ(uroceTestPoll(memory_ + kBytes - 8, round, memory_, kBytes - 8, seen.data(), nullptr),
              kCudaSuccess);
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, sent.data(), kBytes, stream), kCudaSuccess);
    ASSERT_EQ(cuStreamSynchronize(stream), kCudaSuccess);
    ASSERT_EQ(cuStreamSynchronize(nullptr), kCudaSuccess);
    was_early = !std::equal(seen.begin(), seen.end(), sent.begin());
  }
  EXPECT_TRUE(was_early);
}

TEST_F(DriverTest, BlockingStreamsWaitForTheNullStream) {
  CUstream blocking = nullptr;
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), kCudaSuccess);
  ASSERT_EQ(cuStreamCreate(&other, kStreamNonBlocking), kCudaSuccess);
  ASSERT_EQ(cuMemsetD8_v2(memory_, 0, kBytes), kCudaSuccess);
  uint8_t seen[8];
  ASSERT_EQ(uroceTestPoll(memory_, 1, memory_ + 8, 8, seen, nullptr), kCudaSuccess);
  ASSERT_EQ(cuMemsetD8Async(memory_ + 16, 7, 8, blocking), kCudaSuccess);
  EXPECT_EQ(cuStreamQuery(blocking), kCudaNotReady);
  const uint64_t one = 1;
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, &one, 8, other), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(other), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(blocking), kCudaSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), kCudaSuccess);
}

TEST_F(DriverTest, AStreamWaitsForAnEventOfAnother) {
  CUstream streams[2];
  CUevent event = nullptr;
  for (CUstream& stream : streams) {
    ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  }
  ASSERT_EQ(cuEventCreate(&event, 0), kCudaSuccess);
  Words().hang_copy = 1;
  ASSERT_EQ(cuMemsetD8Async(memory_, 7, 8, streams[0]), kCudaSuccess);
  ASSERT_EQ(cuEventRecord(event, streams[0]), kCudaSuccess);
  ASSERT_EQ(cuStreamWaitEvent(streams[1], event, 0), kCudaSuccess);
  EXPECT_EQ(cuEventQuery(event), kCudaNotReady);
  EXPECT_EQ(cuStreamQuery(streams[1]), kCudaNotReady);
  Words().hang_copy = 0;
  EXPECT_EQ(cuEventSynchronize(event), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(streams[1]), kCudaSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kCudaSuccess);
  EXPECT_EQ(cuEventQuery(event), kCudaInvalidHandle);
}

// ---- Contexts and processes ----

TEST_F(DriverTest, CallsNeedACurrentContext) {
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent_v2(&popped), kCudaSuccess);
  EXPECT_EQ(popped, context_);
  uint64_t bytes = 0;
  CUdeviceptr made;
  CUstream stream;
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaInvalidContext);
  EXPECT_EQ(cuMemAlloc_v2(&made, 8), kCudaInvalidContext);
  EXPECT_EQ(cuStreamCreate(&stream, 0), kCudaInvalidContext);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kCudaInvalidContext);
  EXPECT_EQ(cuCtxPushCurrent_v2(&bytes), kCudaInvalidContext);
}

TEST_F(DriverTest, AResetEndsMemoryStreamsAndRegistrations) {
  CUstream stream = nullptr;
  uint64_t bytes = 0;
  unsigned type = 0;
  ASSERT_EQ(cuStreamCreate(&stream, 0), kCudaSuccess);
  ASSERT_EQ(cuMemHostRegister_v2(&bytes, 8, 0), kCudaSuccess);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(stream), kCudaContextIsDestroyed);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaContextIsDestroyed);
  EXPECT_EQ(cuPointerGetAttribute(&type, kPointerMemoryType, memory_), kCudaInvalidValue);
  EXPECT_EQ(cuPointerGetAttribute(&type, kPointerMemoryType, reinterpret_cast<uint64_t>(&bytes)),
            kCudaInvalidValue);
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), kCudaSuccess);
  EXPECT_EQ(again, context_);
  EXPECT_EQ(cuMemAlloc_v2(&memory_, 8), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(stream), kCudaInvalidHandle);
  cuDevicePrimaryCtxRelease_v2(0);
}

TEST_F(DriverTest, AContextThatIsDestroyedEndsItsCopies) {
  CUcontext made = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&made, 0, 1), kCudaSuccess);
  CUdeviceptr its = 0;
  ASSERT_EQ(cuMemAlloc_v2(&its, 64), kCudaSuccess);
  Words().hang_copy = 1;
  std::atomic<CUresult> result{-1};
  std::thread copier([&] {
    uint64_t bytes = 0;
    cuCtxPushCurrent_v2(made);
    result = cuMemcpyHtoD_v2(its, &bytes, 8);
  });
  while (Read(Words().hanging) == 0) std::this_thread::yield();
  EXPECT_EQ(cuCtxDestroy_v2(made), kCudaSuccess);
  copier.join();
  EXPECT_EQ(result, kCudaContextIsDestroyed);
  EXPECT_EQ(cuCtxPushCurrent_v2(made), kCudaInvalidContext);
}

TEST_F(DriverTest, AForkChildHasNoDriver) {
  EXPECT_EQ(InChild([] { return cuInit(0); }), kCudaNotInitialized);
  EXPECT_EQ(InChild([this] {
              unsigned type = 0;
              return cuPointerGetAttribute(&type, kPointerMemoryType, memory_);
            }),
            kCudaNotInitialized);
}

// ---- On demand ----

TEST_F(DriverTest, TheNumberedCopyFailsAtItsCall) {
  uint64_t bytes = 0;
  Words().fail_result = kCudaInvalidValue;
  Words().fail_from = Read(Words().copies) + 2;
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaSuccess);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaInvalidValue);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaSuccess);
}

TEST_F(DriverTest, APlainCopyIsMadeByTheCallAndKeepsItsStreamBusy) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  const std::vector<uint8_t> sent = Pattern(kBytes, 5);
  Words().plain = kPlainCopies;
  Words().busy_ns = 500'000'000;
  Words().latency_ns = 500'000'000;
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, sent.data(), kBytes, stream), kCudaSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kCudaNotReady);
  EXPECT_EQ(DeviceBytesAt(memory_, kBytes), sent) << "on another stream";
  EXPECT_EQ(cuStreamSynchronize(stream), kCudaSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kCudaSuccess);
}

TEST_F(DriverTest, APlainCopyOfNoBytesMovesNone) {
  const std::vector<uint8_t> sent = Pattern(kBytes, 6);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, sent.data(), kBytes), kCudaSuccess);
  Words().plain = kNoBytes;
  Words().bytes_per_us = 1000;
  const std::vector<uint8_t> others(kBytes);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, others.data(), kBytes), kCudaSuccess);
  Words().plain = 0;
  EXPECT_EQ(DeviceBytesAt(memory_, kBytes), sent);
}

TEST_F(DriverTest, ACopyThatFailsLateBreaksItsContext) {
  CUstream stream = nullptr;
  uint64_t bytes = 0;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
  Words().fail_late = 1;
  Words().fail_from = Read(Words().copies) + 1;
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory_, &bytes, 8, stream), kCudaSuccess);
  EXPECT_EQ(cuStreamSynchronize(stream), kCudaIllegalAddress);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, &bytes, 8), kCudaIllegalAddress);
  EXPECT_EQ(cuMemAlloc_v2(&memory_, 8), kCudaIllegalAddress);
}

}  // namespace
}  // namespace uroce::test_gpu
