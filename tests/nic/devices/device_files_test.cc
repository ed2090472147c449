// SPDX-License-Identifier: Apache-2.0
// Files of a device, in the formats of the kernel's sysfs.
#include "nic/devices/device_files.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdio>

namespace uroce::nic {
namespace {

DescribedDevice Device() {
  DescribedDevice described;
  std::snprintf(described.device.name, sizeof(described.device.name), "uroce0");
  std::snprintf(described.device.firmware, sizeof(described.device.firmware), "1.2");
  described.device.node_guid = 0x0100fefffe005452;  // Big endian.
  described.port = {
      .state = IBV_PORT_ACTIVE, .phys_state = 5, .active_width = 2, .active_speed = 32};
  uroce_gid_entry gid{
      .gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 1}, .index = 0, .valid = 1};
  described.gids = {gid, uroce_gid_entry{}};
  described.gid_interfaces = {"eth0", ""};
  return described;
}

TEST(DeviceFilesTest, ADeviceReadsAsTheKernelWritesIt) {
  auto files = DeviceFiles(Device());
  EXPECT_EQ(files["node_guid"], "5254:00fe:fffe:0001");
  EXPECT_EQ(files["node_type"], "1: CA");
  EXPECT_EQ(files["fw_ver"], "1.2");
  EXPECT_EQ(files["ports/1/state"], "4: ACTIVE");
  EXPECT_EQ(files["ports/1/phys_state"], "5: LinkUp");
  EXPECT_EQ(files["ports/1/rate"], "100 Gb/sec (4X EDR)");
}

TEST(DeviceFilesTest, ASlowPortHasHalfGigabits) {
  DescribedDevice described = Device();
  described.port.active_width = 1;
  described.port.active_speed = 1;
  EXPECT_EQ(DeviceFiles(described)["ports/1/rate"], "2.5 Gb/sec (1X)");
  described.port.active_width = 16;
  described.port.active_speed = 32;
  EXPECT_EQ(DeviceFiles(described)["ports/1/rate"], "50 Gb/sec (2X EDR)");
}

// Programs take a missing type for RoCE v1, and a zero GID for an empty slot.
TEST(DeviceFilesTest, AnEmptySlotHasAZeroGidAndNothingElse) {
  auto files = DeviceFiles(Device());
  EXPECT_EQ(files["ports/1/gids/0"], "fe80:0000:0000:0000:0000:0000:0000:ab01");
  EXPECT_EQ(files["ports/1/gid_attrs/types/0"], "RoCE v2");
  EXPECT_EQ(files["ports/1/gid_attrs/ndevs/0"], "eth0");
  EXPECT_EQ(files["ports/1/gids/1"], "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_FALSE(files.contains("ports/1/gid_attrs/types/1"));
  EXPECT_FALSE(files.contains("ports/1/gid_attrs/ndevs/1"));
}

TEST(DeviceFilesTest, OnlyAPortOfTheKernelHasAnInterface) {
  DescribedDevice described = Device();
  EXPECT_FALSE(DeviceFiles(described).contains("device/net/eth0/dev_port"));
  described.interface = "eth0";
  EXPECT_TRUE(DeviceFiles(described).contains("device/net/eth0/dev_port"));
}

TEST(DeviceFilesTest, CpusAreAMaskInWordsOf32) {
  DescribedDevice described = Device();
  described.cpus = 2;
  EXPECT_EQ(DeviceFiles(described)["device/local_cpus"], "3");
  described.cpus = 32;
  EXPECT_EQ(DeviceFiles(described)["device/local_cpus"], "ffffffff");
  described.cpus = 33;
  EXPECT_EQ(DeviceFiles(described)["device/local_cpus"], "1,ffffffff");
}

}  // namespace
}  // namespace uroce::nic
