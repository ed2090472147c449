// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/kernel_interface.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

TEST(KernelInterfaceTest, TheKernelsInterfacesAreSetByEthtool) {
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kOff), "ethtool -A eth0 rx off tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kRx), "ethtool -A eth0 rx on tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kTx), "ethtool -A eth0 rx off tx on");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kFull), "ethtool -A eth0 rx on tx on");
}

// Blocks of 64 KB and more count, whatever their zone: 64 MB of them are enough.
TEST(KernelInterfaceTest, FreeBlocksAreThoseOf64KbAndMore) {
  const auto is_enough = [](const char* counts, uint64_t page_bytes = 4096) {
    return HasFreeBlocks(absl::StrCat("Node 0, zone      DMA      0      0      0      0      1\n",
                                      "Node 0, zone   Normal ", counts, "\n"),
                         page_bytes);
  };
  EXPECT_FALSE(is_enough("1000000 1000000 1000000 1000000 1022 0 0 0 0 0 0"));
  EXPECT_TRUE(is_enough("0 0 0 0 1023 0 0 0 0 0 0"));
  EXPECT_FALSE(is_enough("0 0 0 0 0 0 0 0 0 0 15"));
  EXPECT_TRUE(is_enough("0 0 0 0 0 0 0 0 0 0 16"));
  EXPECT_FALSE(is_enough("0 0 0 0 many"));
  EXPECT_TRUE(is_enough("1008", 65536)) << "a page is a block, and the other zone has sixteen";
  EXPECT_FALSE(is_enough("1007", 65536));
  EXPECT_FALSE(HasFreeBlocks("", 4096));
}

TEST(KernelInterfaceTest, LoopbackIsThereAndLongNamesAreRefused) {
  const auto loopback = ReadInterface("lo");
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  EXPECT_GT(loopback->ifindex, 0);
  EXPECT_GT(loopback->mtu_bytes, 0u);
  EXPECT_FALSE(ReadInterface("an-interface-name-too-long").ok());
}

}  // namespace
}  // namespace uroce::drivers
