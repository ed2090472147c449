// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/pci_device.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kNetworkClass = 0x02;
constexpr uint32_t kVirtioVendor = 0x1af4;
constexpr char kVfio[] = "vfio-pci";

std::string LinkName(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename().string();
}

std::string FirstEntry(const fs::path& directory) {
  std::error_code error;
  const fs::directory_iterator entries(directory, error);
  return entries == fs::directory_iterator() ? "" : entries->path().filename().string();
}

uint32_t ReadHex(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  uint32_t value = 0;
  return file >> text && absl::SimpleHexAtoi(text, &value) ? value : 0;
}

std::string HowToBind(const std::string& address) {
  return absl::StrCat("modprobe vfio-pci && driverctl set-override ", address, " vfio-pci");
}

bool IsUio(const PciDevice& device) {
  return device.kernel_driver == "uio_pci_generic" || device.kernel_driver == "igb_uio";
}

}  // namespace

PciDevice ReadPciDevice(const std::string& address, const std::string& sysfs) {
  const fs::path place = fs::path(sysfs) / "bus/pci/devices" / address;
  std::error_code error;
  PciDevice device;
  device.exists = fs::exists(place, error);
  device.vendor = ReadHex(place / "vendor");
  device.class_code = ReadHex(place / "class");
  device.kernel_driver = LinkName(place / "driver");
  device.interface = FirstEntry(place / "net");
  device.iommu_group = LinkName(place / "iommu_group");
  return device;
}

bool IsBifurcated(const PciDevice& device) {
  static constexpr std::array kDrivers = {"mlx4_core", "mlx5_core"};
  return std::ranges::find(kDrivers, device.kernel_driver) != kDrivers.end();
}

// UIO passes on at most one interrupt of the device. QEMU's virtio-net, driven by DPDK 22.11
// through vfio-pci, did not wake a sleeping worker (tests/interop/pci-guest).
bool HasQueueInterrupts(const PciDevice& device) {
  return !IsUio(device) && device.vendor != kVirtioVendor;
}

absl::Status CheckPciDevice(const std::string& address, const PciDevice& device, bool hugepages) {
  const auto bad = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("dev \"", address, "\": ", why));
  };
  if (!device.exists) return bad("there is no such PCI device; lspci -D lists them");
  if (device.class_code >> 16 != kNetworkClass) return bad("is no network adapter");
  if (IsBifurcated(device)) return absl::OkStatus();
  if (device.kernel_driver.empty()) {
    return bad(absl::StrCat("no driver is bound to it; ", HowToBind(address)));
  }
  if (device.kernel_driver != kVfio && !IsUio(device)) {
    const std::string interface =
        device.interface.empty() ? "" : absl::StrCat(", as ", device.interface);
    return bad(absl::StrCat("the kernel uses it by its driver ", device.kernel_driver, interface,
                            "; take it away: ", HowToBind(address)));
  }
  if (device.kernel_driver == kVfio && device.iommu_group.empty()) {
    return bad(
        "vfio-pci needs an IOMMU: enable it in the firmware, and boot with intel_iommu=on or "
        "amd_iommu=on");
  }
  if (!hugepages) {
    return bad(
        "needs hugepages, and not enough are free; "
        "echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  }
  return absl::OkStatus();
}

}  // namespace uroce::drivers
