// SPDX-License-Identifier: Apache-2.0
// Checks the network of this machine: kernel interfaces, Ethernet adapters on PCI, and others that
// receive on RoCEv2's UDP port or have the daemon's addresses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/doctor/abstract_names.h"
#include "tools/doctor/machine.h"

namespace uroce::tools {

// ---- Kernel interfaces, and the RoCE packets that their MTU carries ----

struct KernelInterface {
  std::string name;
  uint32_t mtu_bytes = 0;
  bool up = false;
};

/// The largest path MTU (256 to 4096) whose packets fit an IP MTU; 0 when none does.
uint32_t RoceMtu(uint32_t mtu_bytes);

/// The Ethernet interfaces in /sys/class/net, without the loopback interface.
std::vector<KernelInterface> ReadInterfaces(const Machine& machine);
Findings CheckInterfaces(const std::vector<KernelInterface>& interfaces);

// ---- Ethernet adapters on PCI, and whether a daemon could drive them ----

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

// ---- Processes that hold sockets ----

struct SocketHolder {
  pid_t pid = 0;     ///< 0: no process that this user may inspect, or the kernel.
  std::string name;  ///< The name of the process.
  friend bool operator==(const SocketHolder&, const SocketHolder&) = default;
};

/// The holder of each socket, by its inode. Reads the descriptors of all processes, if there is
/// an inode to look for.
std::map<std::string, SocketHolder> FindHolders(const Machine& machine,
                                                std::set<std::string> inodes);

// ---- Others in this network namespace that receive on RoCEv2's UDP port, 4791 ----

struct RocePortFacts {
  std::vector<SocketHolder> holders;      ///< One per process.
  bool all_processes_seen = false;        ///< Root looked, so an unseen holder is the kernel.
  bool rxe_loaded = false;                ///< The module rdma_rxe is loaded.
  std::vector<std::string> rdma_devices;  ///< /sys/class/infiniband
};

/// Reads /proc/net/udp, /proc/net/udp6 and the descriptors of all processes.
RocePortFacts ReadRocePort(const Machine& machine);
/// `beside_kernel`: the daemon has a port on a kernel interface, so that both get its packets.
/// Other holders of the port are a problem then; otherwise they are a note.
Findings CheckRocePort(const RocePortFacts& facts, bool beside_kernel);

// ---- Addresses of this network namespace that several NICs of uroced serve ----

/// Addresses of an interface that the same NICs serve.
struct SharedAddresses {
  std::string interface;
  std::vector<std::string> addresses;
  std::vector<SocketHolder> holders;  ///< One for each NIC: a daemon may stand there twice.
};

/// Finds the signs that daemons put up (nic/net/kernel_resources.h) among the names of sockets.
std::vector<SharedAddresses> ReadSharedAddresses(const Machine& machine,
                                                 const std::vector<NamedSocket>& names);
/// `daemon`: the process that is examined, or 0. It is not the one to end.
Findings CheckSharedAddresses(const std::vector<SharedAddresses>& shared, pid_t daemon);

}  // namespace uroce::tools
