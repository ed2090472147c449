// SPDX-License-Identifier: Apache-2.0
// Checks Ethernet adapters on PCI: which driver has them, and whether a daemon could drive them.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

struct PciNic {
  std::string address;                  ///< 0000:3b:00.0
  std::string driver;                   ///< "" when none is bound.
  std::vector<std::string> interfaces;  ///< Of the kernel driver that is bound.
  std::string iommu_group;              ///< "" when no IOMMU isolates it.
  bool vfio_usable = false;             ///< This user may open its /dev/vfio file.
};

struct NicFacts {
  std::vector<PciNic> nics;
  bool has_vfio_driver = false;
  bool unsafe_noiommu = false;  ///< vfio's mode for machines without an IOMMU.
};

/// Reads /sys/bus/pci: devices of class 0x0200, Ethernet controllers.
NicFacts ReadNics(const Machine& machine);
Findings CheckNics(const NicFacts& facts);

}  // namespace uroce::tools
