// SPDX-License-Identifier: Apache-2.0
// What differs for programs of HIP. copies_test.cc has the rest, in the same program.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gpu/cuda.h"
#include "verbs-shim/gpu_driver.h"

extern "C" {
int hipGetLastError();
int hipPeekAtLastError();
int hipPointerGetAttribute(void* value, int attribute, void* address);
}

namespace uroce::gpu {
namespace {

// Programs ask for the last error behind calls that return none, such as that of a kernel.
TEST(HipTest, ALookAtMemoryOfTheHostLeavesTheLastErrorOfTheThread) {
  ASSERT_EQ(cuInit(0), kSuccess);
  ASSERT_NE(FindDriver(), nullptr);
  uint8_t memory[64] = {};
  const auto address = reinterpret_cast<uint64_t>(memory);
  hipGetLastError();
  EXPECT_EQ(FindMemory(address, sizeof(memory)), Residence::kHost);
  EXPECT_EQ(hipPeekAtLastError(), kSuccess);
  unsigned type = 0;
  const int error = hipPointerGetAttribute(&type, kPointerMemoryType, memory);
  ASSERT_NE(error, kSuccess);
  EXPECT_EQ(FindMemory(address, sizeof(memory)), Residence::kHost);
  EXPECT_EQ(hipGetLastError(), error) << "the program's own";
}

// HIP 5 has other numbers for kinds of memory.
TEST(HipTest, AnOldVersionIsNoDriver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // The program begins again.
  EXPECT_EXIT(
      {
        setenv("UROCE_TEST_HIP_VERSION", "50221153", 1);
        std::exit(FindDriver() == nullptr && cuInit(0) == kSuccess ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(std::exit(FindDriver() != nullptr ? 7 : 1), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace uroce::gpu
