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

TEST(DeviceFilesTest, CongestionControlReadsAsMlx5s) {
  DescribedDevice described = Device();
  described.congestion = congestion::DefaultsOf(congestion::Profile::kDcqcnMlx);
  described.congestion.np.np_enable = 0xf7;
  described.profiles.fill(congestion::Profile::kDcqcnMlx);
  described.profiles[5] = congestion::Profile::kOff;
  auto files = DeviceFiles(described);
  EXPECT_EQ(files["ecn/profile"], "dcqcn-mlx");
  EXPECT_EQ(files["ecn/roce_np/min_time_between_cnps"], "4");
  EXPECT_EQ(files["ecn/roce_np/cnp_dscp"], "48");
  EXPECT_EQ(files["ecn/roce_np/cnp_802p_prio"], "6");
  EXPECT_EQ(files["ecn/roce_np/enable/2"], "1");
  EXPECT_EQ(files["ecn/roce_np/enable/3"], "0");
  EXPECT_EQ(files["ecn/roce_rp/enable/3"], "1");
  EXPECT_EQ(files["ecn/roce_rp/enable/5"], "0") << "its own profile is off";
  EXPECT_EQ(files["ecn/roce_rp/rpg_time_reset"], "300");
  EXPECT_EQ(files["ecn/delay/beta"], "800");
  EXPECT_FALSE(files.contains("ecn/roce_np/np_enable"));
}

TEST(DeviceFilesTest, WithoutCongestionControlNoPriorityIsEnabled) {
  auto files = DeviceFiles(Device());
  EXPECT_EQ(files["ecn/profile"], "off");
  EXPECT_EQ(files["ecn/roce_np/enable/0"], "0");
  EXPECT_EQ(files["ecn/roce_rp/enable/7"], "0");
}

}  // namespace
}  // namespace uroce::nic
