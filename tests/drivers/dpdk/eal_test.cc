// SPDX-License-Identifier: Apache-2.0
// DPDK memory that is there before it is needed; and NICs by PCI address: what keeps DPDK from
// them, and what mends it.
#include "drivers/dpdk/eal.h"

#include <gtest/gtest.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "pipeline/os/fd.h"
#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {
namespace {

constexpr char kAddress[] = "0000:3b:00.0";

PciDevice Nic(const char* kernel_driver) {
  return {.exists = true,
          .class_code = 0x020000,
          .kernel_driver = kernel_driver,
          .interface = "",
          .iommu_group = "7"};
}

void ExpectError(const PciDevice& device, const char* hint) {
  const absl::Status status = CheckPciDevice(kAddress, device, true);
  EXPECT_NE(status.message().find(kAddress), std::string::npos) << status;
  EXPECT_NE(status.message().find(hint), std::string::npos) << status;
}

TEST(PciDeviceTest, ANicOnVfioOrUioIsFineWithHugepages) {
  for (const char* driver : {"vfio-pci", "uio_pci_generic"}) {
    EXPECT_TRUE(CheckPciDevice(kAddress, Nic(driver), true).ok()) << driver;
    const absl::Status without = CheckPciDevice(kAddress, Nic(driver), false);
    EXPECT_NE(without.message().find("nr_hugepages"), std::string::npos) << without;
  }
}

TEST(PciDeviceTest, AMellanoxNicStaysWithItsKernelDriver) {
  EXPECT_TRUE(IsBifurcated(Nic("mlx5_core")));
  EXPECT_TRUE(CheckPciDevice(kAddress, Nic("mlx5_core"), false).ok());
}

TEST(PciDeviceTest, WhatIsWrongIsNamedWithTheCommandThatMendsIt) {
  ExpectError({}, "no such PCI device");
  ExpectError({.exists = true, .class_code = 0x010802}, "no network adapter");
  ExpectError(Nic(""), "no driver is bound to it; modprobe vfio-pci && driverctl set-override");
  PciDevice used = Nic("e1000e");
  used.interface = "eth1";
  ExpectError(used, "its driver e1000e, as eth1; take it away: modprobe vfio-pci");
  PciDevice bare = Nic("vfio-pci");
  bare.iommu_group.clear();
  ExpectError(bare, "needs an IOMMU");
}

TEST(PciDeviceTest, UioAndVirtioHaveNoInterruptsToSleepOn) {
  EXPECT_TRUE(HasQueueInterrupts(Nic("vfio-pci")));
  EXPECT_TRUE(HasQueueInterrupts(Nic("mlx5_core")));
  EXPECT_FALSE(HasQueueInterrupts(Nic("uio_pci_generic")));
  PciDevice virtio = Nic("vfio-pci");
  virtio.vendor = 0x1af4;
  EXPECT_FALSE(HasQueueInterrupts(virtio));
}

TEST(PciDeviceTest, SysfsIsReadAsTheKernelWritesIt) {
  namespace fs = std::filesystem;
  char name[] = "/tmp/uroce-test-XXXXXX";
  const fs::path sysfs = mkdtemp(name);
  const fs::path place = sysfs / "bus/pci/devices" / kAddress;
  fs::create_directories(place / "net/eth1");
  std::ofstream(place / "class") << "0x020000\n";
  std::ofstream(place / "vendor") << "0x8086\n";
  fs::create_symlink("../../../bus/pci/drivers/e1000e", place / "driver");
  fs::create_symlink("../../../kernel/iommu_groups/12", place / "iommu_group");
  const PciDevice device = ReadPciDevice(kAddress, sysfs);
  fs::remove_all(sysfs);
  EXPECT_TRUE(device.exists);
  EXPECT_EQ(device.vendor, 0x8086u);
  EXPECT_EQ(device.class_code, 0x020000u);
  EXPECT_EQ(device.kernel_driver, "e1000e");
  EXPECT_EQ(device.interface, "eth1");
  EXPECT_EQ(device.iommu_group, "12");
  EXPECT_FALSE(ReadPciDevice("0000:00:00.9", sysfs).exists);
}

int AddMissingPages(const rte_memseg_list*, const rte_memseg* first, size_t bytes, void* sum) {
  std::vector<unsigned char> present(bytes / kPageBytes);
  EXPECT_EQ(mincore(first->addr, bytes, present.data()), 0);
  *static_cast<size_t*>(sum) += static_cast<size_t>(std::count_if(
      present.begin(), present.end(), [](unsigned char page) { return !(page & 1); }));
  return 0;
}

size_t MissingPages() {
  size_t sum = 0;
  EXPECT_EQ(rte_memseg_contig_walk(AddMissingPages, &sum), 0);
  return sum;
}

using DpdkMemoryTest = FramePoolTest;

TEST_F(DpdkMemoryTest, AllPagesCanBeBroughtInBeforeTheyAreNeeded) {
  ASSERT_TRUE(PopulateDpdkMemory().ok());
  EXPECT_EQ(MissingPages(), 0u);
}

}  // namespace
}  // namespace uroce::drivers
