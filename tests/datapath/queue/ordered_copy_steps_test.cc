// SPDX-License-Identifier: Apache-2.0
// Every kernel that this machine runs: what is to be seen after each instruction of the copy.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "pipeline/datapath/queue/payload.h"
#include "tests/datapath/step_watch.h"

namespace uroce::datapath {
namespace {

using Fault = StepWatch::Fault;

constexpr size_t kMaxBytes = 8192;
constexpr size_t kAlignments = 64;

class OrderedCopyStepsTest : public testing::TestWithParam<OrderedCopyKernel> {
 protected:
  /// Fails unless a program that polls could see nothing but first bytes, then old ones.
  void ExpectInOrder(size_t length, size_t to_offset) {
    const size_t from_offset = (length * 7 + to_offset * 5) % kAlignments;
    StepWatch watch(to_offset, from_offset, length);
    ASSERT_EQ(watch.Run(GetParam().copy), Fault::kNone)
        << length << " bytes to offset " << to_offset << " from offset " << from_offset
        << ": after " << watch.seen_bytes() << " bytes";
  }
};

// The compiled code, a sample: the processor traps after each instruction. UROCE_COPY_STEPS=N takes
// so many copies.
TEST_P(OrderedCopyStepsTest, AfterEachInstructionFirstBytesAreNewAndTheRestOld) {
  const char* const count = getenv("UROCE_COPY_STEPS");
  std::mt19937 random(2);
  for (int copies = count != nullptr ? atoi(count) : 60; copies > 0; --copies) {
    const size_t length = random() % (copies % 16 == 0 ? kMaxBytes : 4 * kAlignments);
    ASSERT_NO_FATAL_FAILURE(ExpectInOrder(length, random() % kAlignments));
  }
}

std::string NameOf(const testing::TestParamInfo<OrderedCopyKernel>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, OrderedCopyStepsTest,
                         testing::ValuesIn(AvailableOrderedCopyKernels().begin(),
                                           AvailableOrderedCopyKernels().end()),
                         NameOf);

// ---- what finds the faults finds them ----

void CopyBytes(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  auto* bytes = static_cast<volatile uint8_t*>(to);
  for (size_t i = 0; i < length_bytes; ++i) bytes[i] = from[i];
}

void CopyLastByteFirst(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  auto* bytes = static_cast<volatile uint8_t*>(to);
  bytes[length_bytes - 1] = from[length_bytes - 1];
  OrderedCopy(to, from, length_bytes);
}

void CopyAllButTheLast(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  OrderedCopy(to, from, length_bytes - 1);
}

TEST(StepWatchTest, SeesBytesOutOfOrderInPiecesAndMissing) {
  StepWatch watch(3, 0, 100);
  EXPECT_EQ(watch.Run(OrderedCopy), Fault::kNone);
  EXPECT_EQ(watch.Run(CopyBytes), Fault::kTorn);
  EXPECT_EQ(watch.Run(CopyLastByteFirst), Fault::kOrder);
  EXPECT_EQ(watch.Run(CopyAllButTheLast), Fault::kUnequal);
}

}  // namespace
}  // namespace uroce::datapath
