// SPDX-License-Identifier: Apache-2.0
// What is to be seen after each instruction that places payload.
#include <gtest/gtest.h>

#include "pipeline/datapath/queue/payload.h"
#include "tests/datapath/memory/test_domains.h"
#include "tests/datapath/step_watch.h"

namespace uroce::datapath {
namespace {

// docs/protocol/verbs-semantics.md, section 5: programs poll on the last byte of a WRITE.
TEST(PayloadStepsTest, AProgramThatPollsSeesTheFirstBytesFirst) {
  constexpr uint32_t kKey = 0x100;
  constexpr uint32_t kBytes = 1024;
  StepWatch watch(8, 54, kBytes);
  MemoryRegion region;
  region.key = kKey;
  region.pd = kPd;
  region.access = kLocalWrite;
  region.iova = 0x1000;
  region.length_bytes = kBytes;
  region.segments = {{.iova = 0x1000, .length_bytes = kBytes, .mapped = watch.to()}};
  KeyTable keys(8);
  ASSERT_TRUE(keys.Publish(&region));
  const uroce_sge entry{0x1000, kBytes, kKey};
  PieceWalker walker({&entry, 1}, 0, kBytes, {.pd = kPd, .rights = kLocalWrite});
  const auto place = [&](uint8_t* /*to*/, const uint8_t* from, size_t /*length*/) {
    auto* bytes = const_cast<uint8_t*>(from);  // Only read.
    Place(keys, walker, bytes);
  };
  EXPECT_EQ(watch.Run(place), StepWatch::Fault::kNone);
}

}  // namespace
}  // namespace uroce::datapath
