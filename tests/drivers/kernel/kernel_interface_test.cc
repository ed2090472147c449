// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/kernel_interface.h"

#include <gtest/gtest.h>

namespace uroce::drivers {
namespace {

TEST(KernelInterfaceTest, TheKernelsInterfacesAreSetByEthtool) {
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kOff), "ethtool -A eth0 rx off tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kRx), "ethtool -A eth0 rx on tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kTx), "ethtool -A eth0 rx off tx on");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kFull), "ethtool -A eth0 rx on tx on");
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
