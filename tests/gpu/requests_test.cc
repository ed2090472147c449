// SPDX-License-Identifier: Apache-2.0
// How the shim serves the daemon's requests for device memory, by the driver for tests.
#include "verbs-shim/gpu_requests.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/gpu/cuda.h"
#include "tests/gpu/words_of_driver.h"

namespace uroce::gpu {
namespace {

constexpr size_t kBytes = 64 << 10;
constexpr uint32_t kLanes = 2;
constexpr uint32_t kNumber = 4;  // Of a copy, above its phase.

/// A stage with lanes, memory of both devices, and the daemon that the test plays.
class GpuRequestsTest : public testing::Test {
 protected:
  GpuRequestsTest() {
    WordsOfDriver();
    for (int device : {0, 1}) {
      CUcontext popped;
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), kSuccess);
      EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[device]), kSuccess);
      EXPECT_EQ(cuMemAlloc_v2(&memory_[device], kBytes), kSuccess);
      EXPECT_EQ(cuMemsetD8_v2(memory_[device], 0, kBytes), kSuccess);
      EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    }
  }
  ~GpuRequestsTest() override {
    std::memset(&WordsOfDriver(), 0, offsetof(test_gpu::Control, copies));
    for (int device : {0, 1}) {
      cuDevicePrimaryCtxReset_v2(device);
      cuDevicePrimaryCtxRelease_v2(device);
    }
  }

  uroce_copy_lane& lane(uint32_t worker) {
    return reinterpret_cast<uroce_copy_lane*>(&stage_ + 1)[worker];
  }
  /// Posts a write of `length` bytes of this value, or a read.
  void Post(uint32_t worker, uint32_t slot, uroce_stage_kind kind, CUdeviceptr address,
            uint32_t length, uint8_t value = 0) {
    uroce_copy_lane& its = lane(worker);
    its.requests[slot].kind = kind;
    its.requests[slot].piece_count = 1;
    its.requests[slot].pieces[0] = {.addr = address, .offset = 0, .length = length};
    std::memset(its.data[slot], value, length);
    its.places[slot].error = -1;
    its.places[slot].state = kNumber | UROCE_COPY_POSTED;
  }
  uint32_t PhaseOf(uint32_t worker, uint32_t slot) {
    return lane(worker).places[slot].state - kNumber;
  }
  std::vector<uint8_t> DeviceBytes(CUdeviceptr address, size_t bytes) {
    std::vector<uint8_t> there(bytes);
    CUcontext popped;
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    EXPECT_EQ(cuMemcpyDtoH_v2(there.data(), address, bytes), kSuccess);
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    return there;
  }

  CUcontext contexts_[2] = {};
  CUdeviceptr memory_[2] = {};
  std::vector<uint8_t> shared_ =
      std::vector<uint8_t>(sizeof(uroce_stage) + kLanes * sizeof(uroce_copy_lane));
  uroce_stage& stage_ = *reinterpret_cast<uroce_stage*>(shared_.data());
  Requests requests_{stage_, kLanes, FindDriver()};
  uint32_t ended_ = 0;
};

TEST_F(GpuRequestsTest, CopiesOfAllLanesAndDevicesAreDoneWhenTheyAreSaidToBe) {
  test_gpu::Control& words = WordsOfDriver();
  for (const uint32_t delay_us : {0u, 2000u}) {
    words.delay_us = delay_us;
    EXPECT_FALSE(requests_.HasAny());
    Post(0, 1, UROCE_STAGE_WRITE, memory_[0] + 100, 5000, 7);
    Post(0, 3, UROCE_STAGE_WRITE, memory_[1] + 50, 300, 8);
    Post(1, 0, UROCE_STAGE_READ, memory_[0] + 100, 5000);
    EXPECT_TRUE(requests_.HasAny());
    ASSERT_TRUE(requests_.Serve(&ended_));
    words.delay_us = 0;
    EXPECT_EQ(ended_, 3u) << "a bit for each worker";
    for (auto [worker, slot] :
         std::initializer_list<std::pair<uint32_t, uint32_t>>{{0, 1}, {0, 3}, {1, 0}}) {
      EXPECT_EQ(PhaseOf(worker, slot), UROCE_COPY_DONE);
      EXPECT_EQ(lane(worker).places[slot].error, 0);
    }
    EXPECT_EQ(DeviceBytes(memory_[0] + 100, 5000), std::vector<uint8_t>(5000, 7));
    EXPECT_EQ(DeviceBytes(memory_[1] + 50, 300), std::vector<uint8_t>(300, 8));
    EXPECT_EQ(std::vector<uint8_t>(lane(1).data[0], lane(1).data[0] + 5000),
              std::vector<uint8_t>(5000, 7));
  }
  EXPECT_FALSE(requests_.HasAny());
  ASSERT_TRUE(requests_.Serve(&ended_));
  EXPECT_EQ(ended_, 0u);
}

// A kernel polls on the end of a message.
TEST_F(GpuRequestsTest, ThePiecesOfACopyBecomeVisibleInTheirOrder) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    WordsOfDriver().seed = seed;
    std::vector<uint8_t> seen(kBytes - 8);
    CUcontext popped;
    CUstream kernel = nullptr;
    ASSERT_EQ(cuCtxPushCurrent_v2(contexts_[0]), kSuccess);
    ASSERT_EQ(cuStreamCreate(&kernel, kStreamNonBlocking), kSuccess);
    uint64_t flag;
    std::memset(&flag, static_cast<int>(seed), sizeof(flag));
    ASSERT_EQ(
        uroceTestPoll(memory_[0] + kBytes - 8, flag, memory_[0], seen.size(), seen.data(), kernel),
        kSuccess);
    Post(0, 0, UROCE_STAGE_WRITE, memory_[0], kBytes, static_cast<uint8_t>(seed));
    uroce_copy_request& request = lane(0).requests[0];
    request.piece_count = 2;
    request.pieces[0].length = kBytes - 8;
    request.pieces[1] = {.addr = memory_[0] + kBytes - 8, .offset = kBytes - 8, .length = 8};
    ASSERT_TRUE(requests_.Serve(&ended_));
    ASSERT_EQ(cuStreamSynchronize(kernel), kSuccess);
    ASSERT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
    EXPECT_EQ(seen, std::vector<uint8_t>(kBytes - 8, static_cast<uint8_t>(seed))) << seed;
  }
}

// The driver does not say which copy has failed.
TEST_F(GpuRequestsTest, NoCopyIsDoneThatMayHaveFailedWithAnother) {
  for (const uint32_t number : {1u, 2u, 3u}) {
    Post(0, 0, UROCE_STAGE_WRITE, memory_[0], 100, 1);
    Post(0, 1, UROCE_STAGE_WRITE, memory_[1], 100, 2);  // Another context.
    Post(1, 2, UROCE_STAGE_WRITE, memory_[0] + 200, 100, 3);
    WordsOfDriver().fail_from = WordsOfDriver().copies + number;
    ASSERT_TRUE(requests_.Serve(&ended_));
    EXPECT_EQ(lane(0).places[0].error, EFAULT) << number;
    EXPECT_EQ(lane(0).places[1].error, EFAULT) << number;
    EXPECT_EQ(lane(1).places[2].error, EFAULT) << number;
    EXPECT_EQ(PhaseOf(1, 2), UROCE_COPY_DONE);
  }
  Post(0, 0, UROCE_STAGE_WRITE, memory_[0], 100, 1);
  ASSERT_TRUE(requests_.Serve(&ended_));
  EXPECT_EQ(lane(0).places[0].error, 0);
}

TEST_F(GpuRequestsTest, WhatTheDaemonCannotMeanIsRefused) {
  const auto error_with = [this](auto&& change) {
    Post(0, 0, UROCE_STAGE_WRITE, memory_[0], 100, 1);
    change(lane(0).requests[0]);
    EXPECT_TRUE(requests_.Serve(&ended_));
    return lane(0).places[0].error;
  };
  EXPECT_EQ(error_with([](uroce_copy_request&) {}), 0);
  EXPECT_EQ(error_with([](uroce_copy_request& request) { request.kind = 3; }), EFAULT);
  EXPECT_EQ(error_with([](uroce_copy_request& request) { request.piece_count = 192; }), EFAULT);
  EXPECT_EQ(error_with([](uroce_copy_request& request) {
              request.pieces[0].offset = UROCE_COPY_DATA_BYTES - 99;
            }),
            EFAULT);
  EXPECT_EQ(error_with([](uroce_copy_request& request) {
              request.pieces[0].length = UINT32_MAX;
              request.pieces[0].offset = 100;
            }),
            EFAULT);
}

TEST_F(GpuRequestsTest, ACopyThatWasTakenBackIsLeftOut) {
  Post(0, 0, UROCE_STAGE_WRITE, memory_[0], 100, 9);
  lane(0).places[0].state = kNumber | UROCE_COPY_FREE;
  EXPECT_FALSE(requests_.HasAny());
  ASSERT_TRUE(requests_.Serve(&ended_));
  EXPECT_EQ(PhaseOf(0, 0), UROCE_COPY_FREE);
  EXPECT_EQ(DeviceBytes(memory_[0], 100), std::vector<uint8_t>(100, 0));
}

// Peers see a silent program, and none that refuses their requests.
TEST_F(GpuRequestsTest, ADriverThatHasEndedAnswersNothing) {
  Post(0, 0, UROCE_STAGE_WRITE, memory_[0], 100, 1);
  Post(1, 1, UROCE_STAGE_READ, memory_[1], 100);
  WordsOfDriver().fail_result = kDeinitialized;
  WordsOfDriver().fail_from = WordsOfDriver().copies + 2;
  EXPECT_FALSE(requests_.Serve(&ended_));
  EXPECT_EQ(ended_, 0u);
  EXPECT_EQ(PhaseOf(0, 0), UROCE_COPY_CLAIMED);
  EXPECT_EQ(PhaseOf(1, 1), UROCE_COPY_CLAIMED);
}

TEST_F(GpuRequestsTest, TheStageIsServedBesideTheLanes) {
  stage_.kind = UROCE_STAGE_WRITE;
  stage_.piece_count = 1;
  stage_.pieces[0] = {.addr = memory_[0], .offset = 4, .length = 100};
  std::memset(stage_.data + 4, 5, 100);
  stage_.requested = 1;
  Post(0, 0, UROCE_STAGE_WRITE, memory_[0] + 100, 100, 6);
  ASSERT_TRUE(requests_.Serve(&ended_));
  EXPECT_EQ(stage_.served, 1u);
  EXPECT_EQ(stage_.error, 0);
  EXPECT_EQ(ended_, 1u);
  EXPECT_EQ(DeviceBytes(memory_[0], 100), std::vector<uint8_t>(100, 5));
  EXPECT_EQ(DeviceBytes(memory_[0] + 100, 100), std::vector<uint8_t>(100, 6));
}

}  // namespace
}  // namespace uroce::gpu
