// SPDX-License-Identifier: Apache-2.0
// How the shim finds memory of a GPU and copies it, by the driver for tests.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/gpu/cuda.h"
#include "tests/gpu/words_of_driver.h"
#include "verbs-shim/gpu_driver.h"

namespace uroce::gpu {
namespace {

using test_gpu::Control;

constexpr size_t kBytes = 64 << 10;

Control& Words() { return WordsOfDriver(); }

class GpuCopiesTest : public testing::Test {
 protected:
  GpuCopiesTest() {
    Words();
    for (int device : {0, 1}) {
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), kSuccess);
      memory_[device] = Allocate(device);
    }
    for (size_t i = 0; i < kBytes; ++i) host_[i] = static_cast<uint8_t>(i * 13 + i / 256 + 1);
  }
  ~GpuCopiesTest() override {
    std::memset(&Words(), 0, offsetof(Control, copies));
    for (int device : {0, 1}) {
      cuDevicePrimaryCtxReset_v2(device);
      cuDevicePrimaryCtxRelease_v2(device);
    }
  }

  /// Memory of a device, zeroed.
  CUdeviceptr Allocate(int device) {
    CUdeviceptr address = 0;
    CUcontext popped;
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[device]), kSuccess);
    EXPECT_EQ(cuMemAlloc_v2(&address, kBytes), kSuccess);
    EXPECT_EQ(cuMemsetD8_v2(address, 0, kBytes), kSuccess);
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    return address;
  }
  /// What is there, without a wait for anything but this read.
  std::vector<uint8_t> BytesAt(CUdeviceptr address, size_t bytes) {
    std::vector<uint8_t> there(bytes);
    CUstream stream;
    CUcontext popped;
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    EXPECT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kSuccess);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(there.data(), address, bytes, stream), kSuccess);
    EXPECT_EQ(cuStreamSynchronize(stream), kSuccess);
    EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    return there;
  }
  int Write(CUdeviceptr address, size_t bytes) {
    const int result = copies_.Begin(/*to_device=*/true, address, host_.data(), bytes);
    const int finished = copies_.Finish();
    return result != kSuccess ? result : finished;
  }
  std::vector<uint8_t> First(size_t bytes) const {
    return {host_.begin(), host_.begin() + static_cast<ptrdiff_t>(bytes)};
  }
  /// A kernel that copies `data` to `snapshot` once `flag` is 1, on a stream of device 0.
  CUstream Poll(CUdeviceptr flag, CUdeviceptr data, std::vector<uint8_t>& snapshot,
                bool on_null_stream = false) {
    CUstream stream = nullptr;
    CUcontext popped;
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    if (!on_null_stream) {
      EXPECT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kSuccess);
    }
    EXPECT_EQ(uroceTestPoll(flag, 1, data, snapshot.size(), snapshot.data(), stream), kSuccess);
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    return stream;
  }
  void Await(CUstream stream) {
    CUcontext popped;
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    EXPECT_EQ(cuStreamSynchronize(stream), kSuccess);
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
  }

  CUcontext contexts_[2] = {};
  CUdeviceptr memory_[2] = {};
  std::vector<uint8_t> host_ = std::vector<uint8_t>(kBytes);
  Copies copies_{FindDriver()};
};

TEST_F(GpuCopiesTest, MemoryThatOnlyADeviceReachesIsFound) {
  const auto stack = reinterpret_cast<uint64_t>(&host_);
  EXPECT_EQ(FindMemory(stack, 8), Residence::kHost);
  EXPECT_EQ(FindMemory(memory_[0], kBytes), Residence::kDevice);
  EXPECT_EQ(FindMemory(memory_[1] + 100, 1), Residence::kDevice);
  EXPECT_EQ(FindMemory(memory_[0], 0), Residence::kHost) << "no bytes lie nowhere";
  EXPECT_EQ(FindMemory(memory_[0], uint64_t{1} << 40), Residence::kBoth);
  CUcontext popped;
  ASSERT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
  CUdeviceptr managed = 0;
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAllocManaged(&managed, kBytes, kAttachGlobal), kSuccess);
  ASSERT_EQ(cuMemHostAlloc(&pinned, kBytes, kHostDeviceMap), kSuccess);
  EXPECT_EQ(FindMemory(managed, kBytes), Residence::kHost);
  EXPECT_EQ(FindMemory(reinterpret_cast<uint64_t>(pinned), kBytes), Residence::kHost);
  ASSERT_EQ(cuMemFreeHost(pinned), kSuccess);
  ASSERT_EQ(cuMemFree_v2(managed), kSuccess);
  ASSERT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
}

// The driver does not work there, and the child must not wait for it.
TEST_F(GpuCopiesTest, AForkChildFindsNoMemoryOfADevice) {
  const pid_t child = fork();
  if (child == 0) _exit(FindMemory(memory_[0], kBytes) == Residence::kHost ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(GpuCopiesTest, CopiesAreDoneWhenFinishReturns) {
  Words().delay_us = 3000;
  EXPECT_EQ(Write(memory_[0] + 5, 1000), kSuccess);
  Words().delay_us = 0;
  EXPECT_EQ(BytesAt(memory_[0] + 5, 1000), First(1000));
  Words().delay_us = 3000;
  std::vector<uint8_t> back(1000);
  EXPECT_EQ(copies_.Begin(/*to_device=*/false, memory_[0] + 5, back.data(), back.size()), kSuccess);
  EXPECT_EQ(copies_.Finish(), kSuccess);
  EXPECT_EQ(back, First(1000));
}

// A kernel polls on the end of a message.
TEST_F(GpuCopiesTest, ALaterCopyIsVisibleBehindAllBytesOfAnEarlierOne) {
  const uint64_t one = 1;
  std::vector<uint8_t> flag(sizeof(one));
  std::memcpy(flag.data(), &one, sizeof(one));
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Words().seed = seed;
    const CUdeviceptr memory = Allocate(0);
    std::vector<uint8_t> seen(kBytes - 8);
    const CUstream kernel = Poll(memory + kBytes - 8, memory, seen);
    EXPECT_EQ(copies_.Begin(true, memory, host_.data(), kBytes - 8), kSuccess);
    EXPECT_EQ(copies_.Begin(true, memory + kBytes - 8, flag.data(), flag.size()), kSuccess);
    EXPECT_EQ(copies_.Finish(), kSuccess);
    Await(kernel);
    EXPECT_EQ(seen, First(kBytes - 8)) << seed;
  }
}

TEST_F(GpuCopiesTest, CopiesToTwoDevicesHaveOneOrder) {
  const uint64_t one = 1;
  std::vector<uint8_t> flag(sizeof(one));
  std::memcpy(flag.data(), &one, sizeof(one));
  Words().delay_us = 2000;
  std::vector<uint8_t> seen(kBytes);
  const CUstream kernel = Poll(memory_[0], memory_[1], seen);
  EXPECT_EQ(copies_.Begin(true, memory_[1], host_.data(), kBytes), kSuccess);
  EXPECT_EQ(copies_.Begin(true, memory_[0], flag.data(), flag.size()), kSuccess);
  EXPECT_EQ(copies_.Finish(), kSuccess);
  Await(kernel);
  EXPECT_EQ(seen, First(kBytes));
}

// Else the kernel would wait for the copy, and the copy for the kernel.
TEST_F(GpuCopiesTest, ACopyWaitsForNoKernelOfTheProgram) {
  const uint64_t one = 1;
  ASSERT_EQ(FindMemory(memory_[0], kBytes), Residence::kDevice);
  std::vector<uint8_t> seen(8);
  const CUstream kernel = Poll(memory_[0], memory_[0] + 8, seen, /*on_null_stream=*/true);
  std::memcpy(host_.data(), &one, sizeof(one));
  EXPECT_EQ(Write(memory_[0], 16), kSuccess);
  Await(kernel);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), host_.begin() + 8));
}

TEST_F(GpuCopiesTest, AContextThatWasResetGetsAnotherStream) {
  EXPECT_EQ(Write(memory_[0], 100), kSuccess);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), kSuccess);
  EXPECT_NE(Write(memory_[0], 100), kSuccess) << "the memory is gone";
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[0], 0), kSuccess);
  memory_[0] = Allocate(0);
  EXPECT_EQ(Write(memory_[0], 100), kSuccess);
  EXPECT_EQ(BytesAt(memory_[0], 100), First(100));
}

// The driver names no context for memory of a pool: it is reached by the device's primary one.
TEST_F(GpuCopiesTest, MemoryOfAPoolIsReachedBeforeAndAfterAReset) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[0], 0), kSuccess);
    CUdeviceptr memory = 0;
    CUcontext popped;
    ASSERT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    ASSERT_EQ(cuMemAllocAsync(&memory, kBytes, nullptr), kSuccess);
    ASSERT_EQ(cuStreamSynchronize(nullptr), kSuccess);
    ASSERT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    EXPECT_EQ(FindMemory(memory, kBytes), Residence::kDevice);
    EXPECT_EQ(Write(memory, 100), kSuccess) << round;
    EXPECT_EQ(BytesAt(memory, 100), First(100));
    ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), kSuccess);
  }
}

TEST_F(GpuCopiesTest, ContextsThatEndLeaveRoomForOthers) {
  for (int round = 0; round < 100; ++round) {
    CUcontext context;
    CUdeviceptr memory;
    ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), kSuccess);
    ASSERT_EQ(cuMemAlloc_v2(&memory, kBytes), kSuccess);
    ASSERT_EQ(Write(memory, 100), kSuccess) << round;
    ASSERT_EQ(cuCtxDestroy_v2(context), kSuccess);
    ASSERT_NE(Write(memory, 100), kSuccess) << "its memory is gone";
  }
  EXPECT_EQ(Write(memory_[1], 100), kSuccess);
}

TEST_F(GpuCopiesTest, AnErrorOfTheDriverIsReturned) {
  Words().fail_from = Words().copies + 1;
  EXPECT_EQ(Write(memory_[0], 100), kCudaIllegalAddress);
  EXPECT_EQ(Write(memory_[0], 100), kSuccess) << "one copy alone";
  EXPECT_NE(copies_.Begin(true, memory_[0] + kBytes - 1, host_.data(), 2), kSuccess)
      << "behind the end of the allocation";
  EXPECT_EQ(copies_.Finish(), kSuccess);
  EXPECT_NE(copies_.Begin(true, reinterpret_cast<uint64_t>(&host_), host_.data(), 2), kSuccess)
      << "memory of the host";
}

}  // namespace
}  // namespace uroce::gpu
