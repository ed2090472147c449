// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/kernel_interface.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  if (sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "the texts are those of pages of 4 KB";
  const auto with = [](const char* counts) {
    return absl::StrCat("Node 0, zone      DMA      0      0      0      0      1\n",
                        "Node 0, zone   Normal ", counts, "\n");
  };
  EXPECT_FALSE(HasFreeBlocks(with("1000000 1000000 1000000 1000000 1022 0 0 0 0 0 0")));
  EXPECT_TRUE(HasFreeBlocks(with("0 0 0 0 1023 0 0 0 0 0 0")));
  EXPECT_FALSE(HasFreeBlocks(with("0 0 0 0 0 0 0 0 0 0 15")));
  EXPECT_TRUE(HasFreeBlocks(with("0 0 0 0 0 0 0 0 0 0 16")));
  EXPECT_FALSE(HasFreeBlocks(""));
  EXPECT_FALSE(HasFreeBlocks(with("0 0 0 0 many")));
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
