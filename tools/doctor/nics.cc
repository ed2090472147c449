// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/nics.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace uroce::tools {
namespace {

constexpr char kDevices[] = "/sys/bus/pci/devices";
constexpr char kNoIommu[] = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
constexpr char kEthernetClass[] = "0x0200";

std::string LastPart(const std::optional<std::string>& path) {
  return path ? path->substr(path->rfind('/') + 1) : "";
}

/// Interfaces are below the PCI device, or below the virtio device that it carries.
std::vector<std::string> InterfacesOf(const Machine& machine, const std::string& place) {
  std::vector<std::string> interfaces = machine.List(place + "/net");
  for (const std::string& name : machine.List(place)) {
    if (!absl::StartsWith(name, "virtio")) continue;
    for (std::string& interface : machine.List(absl::StrCat(place, "/", name, "/net"))) {
      interfaces.push_back(std::move(interface));
    }
  }
  return interfaces;
}

PciNic ReadNic(const Machine& machine, const std::string& address) {
  const std::string place = absl::StrCat(kDevices, "/", address);
  PciNic nic{.address = address};
  nic.driver = LastPart(machine.ReadLink(place + "/driver"));
  nic.interfaces = InterfacesOf(machine, place);
  nic.iommu_group = LastPart(machine.ReadLink(place + "/iommu_group"));
  for (const char* prefix : {"/dev/vfio/", "/dev/vfio/noiommu-"}) {
    if (!nic.iommu_group.empty() && machine.MayUse(prefix + nic.iommu_group))
      nic.vfio_usable = true;
  }
  return nic;
}

/// Whether DPDK shares a NIC with this driver: the kernel keeps the NIC, and vfio is not needed.
bool IsShared(const std::string& driver) { return driver == "mlx5_core" || driver == "mlx4_core"; }
bool IsForDpdk(const std::string& driver) {
  return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio";
}

Finding CheckNic(const PciNic& nic, const NicFacts& facts) {
  if (nic.driver == "vfio-pci" && !nic.vfio_usable) {
    return {Level::kProblem, "nics",
            absl::StrCat(nic.address, ": bound to vfio-pci, but /dev/vfio/", nic.iommu_group,
                         " may not be opened"),
            absl::StrCat("sudo chown $USER /dev/vfio/", nic.iommu_group)};
  }
  if (IsForDpdk(nic.driver)) {
    return {Level::kOk, "nics", absl::StrCat(nic.address, ": ", nic.driver, ", ready for uroced"),
            ""};
  }
  if (nic.driver.empty()) {
    return {
        Level::kNote, "nics", absl::StrCat(nic.address, ": has no driver; for uroced:"),
        absl::StrCat("sudo modprobe vfio-pci && sudo dpdk-devbind.py -b vfio-pci ", nic.address)};
  }
  const std::string has =
      absl::StrCat(nic.address, ": ", nic.driver, " (", absl::StrJoin(nic.interfaces, ", "), ")");
  if (IsShared(nic.driver)) {
    return {Level::kOk, "nics", has + ", serves the kernel and uroced side by side", ""};
  }
  const bool can_move = facts.has_vfio_driver && (!nic.iommu_group.empty() || facts.unsafe_noiommu);
  return {Level::kOk, "nics",
          has + (can_move ? ", with the kernel; vfio-pci can have it" : ", with the kernel"), ""};
}

/// Says what vfio-pci would need, once for all NICs that the kernel has.
void CheckVfio(const NicFacts& facts, Findings& findings) {
  bool kernel_has_one = false;
  bool all_isolated = true;
  for (const PciNic& nic : facts.nics) {
    if (IsForDpdk(nic.driver) || IsShared(nic.driver)) continue;
    kernel_has_one = true;
    if (nic.iommu_group.empty()) all_isolated = false;
  }
  if (!kernel_has_one) return;
  if (!facts.has_vfio_driver) {
    findings.push_back({Level::kNote, "nics",
                        "vfio-pci is not loaded: uroced can use these NICs beside the kernel "
                        "(iface=), not own them",
                        "sudo modprobe vfio-pci"});
  } else if (!all_isolated && !facts.unsafe_noiommu) {
    findings.push_back(
        {Level::kNote, "nics",
         "no IOMMU (kernel parameters intel_iommu=on or amd_iommu=on, and the firmware's setting): "
         "vfio-pci works without its protection only",
         absl::StrCat("echo 1 | sudo tee ", kNoIommu)});
  }
}

}  // namespace

NicFacts ReadNics(const Machine& machine) {
  NicFacts facts;
  for (const std::string& address : machine.List(kDevices)) {
    const auto kind = machine.Read(absl::StrCat(kDevices, "/", address, "/class"));
    if (kind && absl::StartsWith(*kind, kEthernetClass)) {
      facts.nics.push_back(ReadNic(machine, address));
    }
  }
  facts.has_vfio_driver = machine.Exists("/sys/bus/pci/drivers/vfio-pci");
  facts.unsafe_noiommu = absl::StartsWith(machine.Read(kNoIommu).value_or(""), "Y");
  return facts;
}

Findings CheckNics(const NicFacts& facts) {
  if (facts.nics.empty()) return {{Level::kOk, "nics", "no Ethernet adapter on PCI", ""}};
  Findings findings;
  for (const PciNic& nic : facts.nics) findings.push_back(CheckNic(nic, facts));
  CheckVfio(facts, findings);
  return findings;
}

}  // namespace uroce::tools
