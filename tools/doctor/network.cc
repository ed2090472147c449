// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/network.h"

#include <arpa/inet.h>
#include <linux/if_arp.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {

// ---- Kernel interfaces ----

namespace {

constexpr char kNetworkFolder[] = "/sys/class/net";
// The daemon counts the same: GRH 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4.
constexpr uint32_t kHeaderBytes = 96;
constexpr uint32_t kLargestPathMtu = 4096;
constexpr uint32_t kSmallestPathMtu = 256;

}  // namespace

uint32_t RoceMtu(uint32_t mtu_bytes) {
  for (uint32_t mtu = kLargestPathMtu; mtu >= kSmallestPathMtu; mtu /= 2) {
    if (mtu + kHeaderBytes <= mtu_bytes) return mtu;
  }
  return 0;
}

std::vector<KernelInterface> ReadInterfaces(const Machine& machine) {
  std::vector<KernelInterface> interfaces;
  for (const std::string& name : machine.List(kNetworkFolder)) {
    const std::string place = absl::StrCat(kNetworkFolder, "/", name);
    if (machine.ReadNumber(place + "/type") != ARPHRD_ETHER) continue;
    const auto state = machine.Read(place + "/operstate");
    interfaces.push_back(
        {.name = name,
         .mtu_bytes = static_cast<uint32_t>(machine.ReadNumber(place + "/mtu").value_or(0)),
         .up = state && absl::StartsWith(*state, "up")});
  }
  return interfaces;
}

Findings CheckInterfaces(const std::vector<KernelInterface>& interfaces) {
  Findings findings;
  for (const KernelInterface& interface : interfaces) {
    if (!interface.up) continue;
    const uint32_t mtu = RoceMtu(interface.mtu_bytes);
    const std::string has = absl::StrCat(interface.name, ": MTU ", interface.mtu_bytes);
    const std::string fix = absl::StrCat("sudo ip link set dev ", interface.name, " mtu 4200");
    if (mtu == 0) {
      findings.push_back({Level::kNote, "interfaces", has + " is too small for RoCE", fix});
    } else {
      const char* hint = mtu < kLargestPathMtu ? " (4200 or more: 4096)" : "";
      findings.push_back({Level::kOk, "interfaces",
                          absl::StrCat(has, " carries RoCE packets of ", mtu, " bytes", hint), ""});
    }
  }
  if (findings.empty()) findings.push_back({Level::kOk, "interfaces", "none is up", ""});
  return findings;
}

// ---- Ethernet adapters on PCI ----

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

// ---- Processes that hold sockets ----

namespace {

/// Moves the sockets that a process holds from `inodes` to `holders`.
void TakeSocketsOf(const Machine& machine, pid_t pid, std::set<std::string>& inodes,
                   std::map<std::string, SocketHolder>& holders) {
  const std::string place = absl::StrCat("/proc/", pid);
  std::string name;
  for (const std::string& fd : machine.List(place + "/fd")) {
    const auto target = machine.ReadLink(absl::StrCat(place, "/fd/", fd));
    if (!target || !absl::StartsWith(*target, "socket:[")) continue;
    const std::string inode = target->substr(8, target->size() - 9);
    if (inodes.erase(inode) == 0) continue;
    if (name.empty()) name = machine.Read(place + "/comm").value_or("?");
    holders[inode] = {pid, std::string(absl::StripAsciiWhitespace(name))};
  }
}

}  // namespace

std::map<std::string, SocketHolder> FindHolders(const Machine& machine,
                                                std::set<std::string> inodes) {
  std::map<std::string, SocketHolder> holders;
  if (inodes.empty()) return holders;
  for (const std::string& name : machine.List("/proc")) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(name, &pid)) TakeSocketsOf(machine, pid, inodes, holders);
  }
  for (const std::string& inode : inodes) holders[inode] = {};
  return holders;
}

// ---- RoCEv2's UDP port ----

namespace {

constexpr char kPortSuffix[] = ":12B7";  // 4791 as it appears in /proc/net/udp.
constexpr size_t kUdpAddress = 1;        // Indices of words in a line of it.
constexpr size_t kUdpInode = 9;

/// Inodes of the sockets that are bound to the port.
std::set<std::string> SocketsOfPort(const Machine& machine) {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
    const std::string text = machine.Read(table).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
      if (words.size() <= kUdpInode || !absl::EndsWith(words[kUdpAddress], kPortSuffix)) continue;
      inodes.insert(words[kUdpInode]);
    }
  }
  return inodes;
}

Finding CheckHolder(const SocketHolder& holder, const RocePortFacts& facts, Level level) {
  if (holder.name == "uroced") {
    return {Level::kOk, "udp 4791", absl::StrCat("held by uroced (pid ", holder.pid, ")"), ""};
  }
  if (holder.pid != 0) {
    return {level, "udp 4791",
            absl::StrCat("held by ", holder.name, " (pid ", holder.pid,
                         "), which sees RoCE packets of this namespace too"),
            absl::StrCat("sudo kill ", holder.pid)};
  }
  if (!facts.rxe_loaded && !facts.all_processes_seen) {
    return {Level::kOk, "udp 4791", "held by another user's process; root sees whose", ""};
  }
  const std::string device = facts.rdma_devices.empty() ? "rxe0" : facts.rdma_devices.front();
  return {level, "udp 4791",
          "held by the kernel (rdma_rxe): it answers the packets of a port on the same interface",
          "sudo rdma link delete " + device};
}

}  // namespace

RocePortFacts ReadRocePort(const Machine& machine) {
  RocePortFacts facts;
  for (const auto& [inode, holder] : FindHolders(machine, SocketsOfPort(machine))) {
    if (std::ranges::find(facts.holders, holder) == facts.holders.end()) {
      facts.holders.push_back(holder);
    }
  }
  facts.all_processes_seen = !machine.List("/proc/1/fd").empty();
  facts.rxe_loaded = machine.Exists("/sys/module/rdma_rxe");
  facts.rdma_devices = machine.List("/sys/class/infiniband");
  return facts;
}

Findings CheckRocePort(const RocePortFacts& facts, bool beside_kernel) {
  if (facts.holders.empty()) return {{Level::kOk, "udp 4791", "free", ""}};
  Findings findings;
  for (const SocketHolder& holder : facts.holders) {
    findings.push_back(CheckHolder(holder, facts, beside_kernel ? Level::kProblem : Level::kNote));
  }
  return findings;
}

// ---- Addresses that several NICs serve ----

namespace {

constexpr char kSigns[] = "uroced/address/";

/// An address on an interface, by its index.
using Place = std::pair<uint64_t, std::string>;

bool IsAddress(const std::string& text) {
  in6_addr address;
  return text.find('\0') == text.npos && (inet_pton(AF_INET, text.c_str(), &address) == 1 ||
                                          inet_pton(AF_INET6, text.c_str(), &address) == 1);
}

/// The inodes of the signs on each place. Any program may take such a name.
std::map<Place, std::vector<std::string>> FindSigns(const std::vector<NamedSocket>& names) {
  std::map<Place, std::vector<std::string>> signs;
  for (const NamedSocket& socket : names) {
    const std::vector<std::string> parts = absl::StrSplit(socket.name, '/');
    uint64_t ifindex = 0;
    if (!absl::StartsWith(socket.name, kSigns) || parts.size() != 5) continue;
    if (!absl::SimpleAtoi(parts[2], &ifindex) || !IsAddress(parts[3])) continue;
    signs[{ifindex, parts[3]}].push_back(socket.inode);
  }
  std::erase_if(signs, [](const auto& place) { return place.second.size() < 2; });
  return signs;
}

std::string InterfaceOf(const Machine& machine, uint64_t ifindex) {
  for (const std::string& name : machine.List("/sys/class/net")) {
    if (machine.ReadNumber(absl::StrCat("/sys/class/net/", name, "/ifindex")) == ifindex) {
      return name;
    }
  }
  return absl::StrCat("interface ", ifindex);
}

std::string TextOf(const SocketHolder& holder) {
  return holder.pid == 0 ? std::string("another process (root sees which)")
                         : absl::StrCat(holder.name, " (pid ", holder.pid, ")");
}

Finding CheckShared(const SharedAddresses& shared, pid_t daemon) {
  const auto names = absl::StrJoin(
      shared.holders, " and by ",
      [](std::string* text, const SocketHolder& holder) { absl::StrAppend(text, TextOf(holder)); });
  const auto other = std::ranges::find_if(shared.holders, [&](const SocketHolder& holder) {
    return holder.pid != 0 && holder.pid != daemon;
  });
  return {Level::kProblem, "addresses",
          absl::StrCat(absl::StrJoin(shared.addresses, ", "), " of ", shared.interface,
                       ": served by ", names, "; connections may be refused by the wrong one"),
          other == shared.holders.end() ? "" : absl::StrCat("sudo kill ", other->pid)};
}

}  // namespace

std::vector<SharedAddresses> ReadSharedAddresses(const Machine& machine,
                                                 const std::vector<NamedSocket>& names) {
  const std::map<Place, std::vector<std::string>> signs = FindSigns(names);
  std::set<std::string> all;
  for (const auto& [place, inodes] : signs) all.insert(inodes.begin(), inodes.end());
  const std::map<std::string, SocketHolder> holders_of = FindHolders(machine, all);
  std::vector<SharedAddresses> shared;
  for (const auto& [place, inodes] : signs) {
    SharedAddresses one{InterfaceOf(machine, place.first), {place.second}, {}};
    for (const std::string& inode : inodes) one.holders.push_back(holders_of.at(inode));
    std::ranges::sort(one.holders, {}, &SocketHolder::pid);
    const auto same = std::ranges::find_if(shared, [&](const SharedAddresses& each) {
      return each.interface == one.interface && each.holders == one.holders;
    });
    if (same == shared.end()) {
      shared.push_back(std::move(one));
    } else {
      same->addresses.push_back(place.second);
    }
  }
  return shared;
}

Findings CheckSharedAddresses(const std::vector<SharedAddresses>& shared, pid_t daemon) {
  if (shared.empty()) return {{Level::kOk, "addresses", "each is served by one NIC", ""}};
  Findings findings;
  for (const SharedAddresses& one : shared) findings.push_back(CheckShared(one, daemon));
  return findings;
}

}  // namespace uroce::tools
