// SPDX-License-Identifier: Apache-2.0
// Device arguments as users write them.
#include "drivers/device_arguments.h"

#include <gtest/gtest.h>

#include "drivers/dpdk_port.h"
#include "drivers/kernel_interface.h"

namespace uroce::drivers {
namespace {

TEST(DeviceArgumentsTest, AfPacketGetsRingsThatCarryRoceFrames) {
  const auto arguments = ParseDeviceArguments("net_af_packet0;iface=veth0");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->driver, "net_af_packet");
  EXPECT_EQ(arguments->Interface(), "veth0");
  EXPECT_EQ(arguments->ToDpdk(),
            "net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=2048,qpairs=1,"
            "qdisc_bypass=0");
  EXPECT_EQ(RequiredFrameBytes(*arguments), 8192u);
}

TEST(DeviceArgumentsTest, WhatTheUserSaysIsKept) {
  const auto arguments = ParseDeviceArguments("net_af_packet3;iface=v;framesz=16384;framecnt=64");
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->ToDpdk(),
            "net_af_packet3,iface=v,framesz=16384,framecnt=64,blocksz=65536,qpairs=1,"
            "qdisc_bypass=0");
  EXPECT_EQ(RequiredFrameBytes(*arguments), 16384u);
}

TEST(DeviceArgumentsTest, OtherDriversAndPciAddressesPassThrough) {
  const auto memif = ParseDeviceArguments("net_memif0;role=server;socket=/run/x.sock");
  ASSERT_TRUE(memif.ok());
  EXPECT_EQ(memif->ToDpdk(), "net_memif0,role=server,socket=/run/x.sock");
  EXPECT_EQ(memif->Interface(), "");
  EXPECT_GE(RequiredFrameBytes(*memif), 4200u);
  const auto pci = ParseDeviceArguments("0000:3b:00.0");
  ASSERT_TRUE(pci.ok());
  EXPECT_TRUE(pci->IsPci());
}

TEST(DeviceArgumentsTest, NonsenseIsOneClearError) {
  for (const char* text :
       {"", "veth0", "net_af_packet0", "net_memif0;;role=client", "net_ring;=3"}) {
    const auto arguments = ParseDeviceArguments(text);
    ASSERT_FALSE(arguments.ok()) << text;
    EXPECT_NE(arguments.status().message().find(text), std::string::npos) << arguments.status();
  }
}

TEST(DpdkPortTest, AMissingInterfaceIsNamed) {
  const auto port = OpenDpdkPort("net_af_packet0;iface=nosuch0", nullptr);
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(port.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(port.status().message().find("nosuch0"), std::string::npos) << port.status();
}

TEST(KernelInterfaceTest, LoopbackIsThereAndLongNamesAreRefused) {
  const auto loopback = ReadKernelInterface("lo");
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  EXPECT_GT(loopback->ifindex, 0);
  EXPECT_GT(loopback->mtu_bytes, 0u);
  EXPECT_FALSE(ReadKernelInterface("an-interface-name-too-long").ok());
}

}  // namespace
}  // namespace uroce::drivers
