// SPDX-License-Identifier: Apache-2.0
// What the checks read from a machine's files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/os/fd.h"
#include "tests/tools/doctor/fixture_tree.h"
#include "tools/doctor/kernel.h"
#include "tools/doctor/network.h"

namespace uroce::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(DoctorReadingTest, EmptyMachineIsReadWithoutFacts) {
  const FixtureTree tree;
  EXPECT_THAT(ReadHugepages(tree.machine()), IsEmpty());
  EXPECT_THAT(ReadInterfaces(tree.machine()), IsEmpty());
  EXPECT_THAT(ReadNics(tree.machine()).nics, IsEmpty());
  EXPECT_THAT(ReadRocePort(tree.machine()).holders, IsEmpty());
  EXPECT_THAT(ReadSharedAddresses(tree.machine(), {}), IsEmpty());
  EXPECT_EQ(ReadKernel(tree.machine()).major, 0);
  EXPECT_EQ(ReadPermissions(tree.machine()).capabilities, 0u);
  EXPECT_FALSE(ReadLimits(tree.machine(), {1}).max_map_count.has_value());
}

TEST(DoctorReadingTest, HugepagesOfEachSize) {
  FixtureTree tree;
  const std::string place = "/sys/kernel/mm/hugepages/hugepages-";
  tree.Write(place + "2048kB/nr_hugepages", "512\n");
  tree.Write(place + "2048kB/free_hugepages", "100\n");
  tree.Write(place + "1048576kB/nr_hugepages", "2\n");
  const auto pools = ReadHugepages(tree.machine());
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].page_bytes, 1u << 30);
  EXPECT_EQ(pools[0].total, 2u);
  EXPECT_EQ(pools[1].total, 512u);
  EXPECT_EQ(pools[1].free, 100u);
}

TEST(DoctorReadingTest, InterfacesAreEthernetOnly) {
  FixtureTree tree;
  tree.Write("/sys/class/net/eth0/type", "1\n");
  tree.Write("/sys/class/net/eth0/mtu", "9000\n");
  tree.Write("/sys/class/net/eth0/operstate", "up\n");
  tree.Write("/sys/class/net/lo/type", "772\n");
  const auto interfaces = ReadInterfaces(tree.machine());
  ASSERT_EQ(interfaces.size(), 1u);
  EXPECT_EQ(interfaces[0].name, "eth0");
  EXPECT_EQ(interfaces[0].mtu_bytes, 9000u);
  EXPECT_TRUE(interfaces[0].up);
}

TEST(DoctorReadingTest, NicsHaveDriverInterfacesAndIommuGroup) {
  FixtureTree tree;
  const std::string place = "/sys/bus/pci/devices/0000:";
  tree.Write(place + "3b:00.0/class", "0x020000\n");
  tree.Link(place + "3b:00.0/driver", "../../../bus/pci/drivers/ixgbe");
  tree.Link(place + "3b:00.0/iommu_group", "../../../kernel/iommu_groups/17");
  tree.Write(place + "3b:00.0/net/eth1/mtu", "1500\n");
  tree.Write(place + "3c:00.0/class", "0x020000\n");
  tree.Link(place + "3c:00.0/driver", "../../../bus/pci/drivers/virtio-pci");
  tree.Write(place + "3c:00.0/virtio2/net/eth2/mtu", "1500\n");
  tree.Write(place + "00:02.0/class", "0x030000\n");  // A display.
  const NicFacts facts = ReadNics(tree.machine());
  ASSERT_EQ(facts.nics.size(), 2u);
  EXPECT_EQ(facts.nics[0].address, "0000:3b:00.0");
  EXPECT_EQ(facts.nics[0].driver, "ixgbe");
  EXPECT_EQ(facts.nics[0].iommu_group, "17");
  EXPECT_THAT(facts.nics[0].interfaces, ElementsAre("eth1"));
  EXPECT_THAT(facts.nics[1].interfaces, ElementsAre("eth2"));
  EXPECT_EQ(facts.nics[1].iommu_group, "");
  EXPECT_FALSE(facts.has_vfio_driver);
}

TEST(DoctorReadingTest, LimitsOfEachProcess) {
  FixtureTree tree;
  tree.Write("/proc/sys/vm/max_map_count", "65530\n");
  const std::string limits =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max open files            1024                 524288               files     \n"
      "Max locked memory         unlimited            unlimited            bytes     \n";
  tree.Write("/proc/self/limits", limits);
  tree.Write("/proc/7/limits", limits);
  tree.Write("/proc/7/comm", "uroced\n");
  tree.Write("/proc/7/maps", "a\nb\nc\n");
  tree.Write("/proc/7/fd/0", "");
  tree.Write("/proc/7/fd/1", "");
  const LimitFacts facts = ReadLimits(tree.machine(), {7});
  EXPECT_EQ(facts.max_map_count, 65530u);
  EXPECT_EQ(facts.memlock_bytes, ~0ull);
  ASSERT_EQ(facts.processes.size(), 1u);
  EXPECT_EQ(facts.processes[0].name, "uroced");
  EXPECT_EQ(facts.processes[0].maps, 3u);
  EXPECT_EQ(facts.processes[0].open_files, 2u);
  EXPECT_EQ(facts.processes[0].max_files, 1024u);
}

TEST(DoctorReadingTest, HolderOfTheRocePortIsFoundByItsSocket) {
  FixtureTree tree;
  const std::string header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
  tree.Write("/proc/net/udp",
             header +
                 "  1: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0"
                 "        0 4242 2 0 0\n"
                 "  2: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0"
                 "        0 5353 2 0 0\n");
  tree.Write("/proc/net/udp6", header);
  tree.Write("/proc/9/comm", "other\n");
  tree.Link("/proc/9/fd/3", "socket:[5353]");
  tree.Write("/proc/8/comm", "uroced\n");
  tree.Link("/proc/8/fd/3", "socket:[4242]");
  const RocePortFacts facts = ReadRocePort(tree.machine());
  ASSERT_EQ(facts.holders.size(), 1u);
  EXPECT_EQ(facts.holders[0].pid, 8);
  EXPECT_EQ(facts.holders[0].name, "uroced");
}

TEST(DoctorReadingTest, SocketOfNoProcessIsTheKernels) {
  FixtureTree tree;
  tree.Write("/proc/net/udp6",
             "head\n 1: 0:12B7 0:0000 07 00000000:00000000 00:00000000 00000000 0 0 77 2 0 0\n");
  tree.Write("/sys/module/rdma_rxe/refcnt", "1\n");
  tree.Write("/sys/class/infiniband/rxe_eth0/node_type", "1: CA\n");
  const RocePortFacts facts = ReadRocePort(tree.machine());
  ASSERT_EQ(facts.holders.size(), 1u);
  EXPECT_EQ(facts.holders[0].pid, 0);
  EXPECT_TRUE(facts.rxe_loaded);
  EXPECT_THAT(facts.rdma_devices, ElementsAre("rxe_eth0"));
}

TEST(DoctorReadingTest, AddressesWithTwoSignsAreSharedByTheHoldersOfTheSigns) {
  FixtureTree tree;
  const std::vector<NamedSocket> names = {{"uroced/address/2/192.0.2.1/0", "41"},
                                          {"uroced/address/2/192.0.2.1/1", "42"},
                                          {"uroced/address/2/fd00::1/0", "43"},
                                          {"uroced/address/2/fd00::1/1", "44"},
                                          {"uroced/address/3/192.0.2.1/0", "45"},
                                          {"uroced/address/2/192.0.2.9/0", "46"},
                                          {"", "48"}};
  tree.Write("/sys/class/net/eth0/ifindex", "2\n");
  tree.Write("/sys/class/net/eth1/ifindex", "3\n");
  for (const char* pid : {"8", "9"}) tree.Write(std::string("/proc/") + pid + "/comm", "uroced\n");
  tree.Link("/proc/8/fd/3", "socket:[41]");
  tree.Link("/proc/8/fd/4", "socket:[44]");
  tree.Link("/proc/9/fd/3", "socket:[42]");
  tree.Link("/proc/9/fd/4", "socket:[43]");
  const std::vector<SharedAddresses> shared = ReadSharedAddresses(tree.machine(), names);
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].interface, "eth0");
  EXPECT_THAT(shared[0].addresses, ElementsAre("192.0.2.1", "fd00::1"));
  EXPECT_THAT(shared[0].holders, ElementsAre(SocketHolder{8, "uroced"}, SocketHolder{9, "uroced"}));
}

TEST(DoctorReadingTest, AddressesWithTheirOwnSignsAreNotShared) {
  const FixtureTree tree;
  EXPECT_THAT(ReadSharedAddresses(tree.machine(), {{"uroced/address/2/192.0.2.1/0", "41"},
                                                   {"uroced/address/2/192.0.2.2/0", "42"}}),
              IsEmpty());
}

TEST(DoctorReadingTest, SignsOfNoAddressAreNoSigns) {
  const FixtureTree tree;
  for (const std::string& place : {std::string("2/run this"), std::string("2/192.0.2.1\0", 12),
                                   std::string("x/192.0.2.1"), std::string("2/192.0.2.1/3")}) {
    EXPECT_THAT(ReadSharedAddresses(tree.machine(), {{"uroced/address/" + place + "/0", "41"},
                                                     {"uroced/address/" + place + "/1", "42"}}),
                IsEmpty())
        << place;
  }
}

Fd BindAbstract(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int result = bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length);
  return result == 0 ? std::move(socket) : Fd();
}

std::string InodeOf(const Fd& socket) {
  struct stat info {};
  fstat(socket.get(), &info);
  return std::to_string(info.st_ino);
}

// In /proc/net/unix the second line of the name would be a line about another socket.
TEST(DoctorReadingTest, ANameWithLinesIsOneName) {
  const std::string unique = "uroce-test-" + std::to_string(getpid());
  const std::string name =
      unique + "\n0000000000000000: 00000002 00000000 00000000 0005 01 1 @" + unique;
  const Fd hostile = BindAbstract(name);
  const Fd plain = BindAbstract(unique);
  ASSERT_TRUE(hostile && plain);
  const auto names = ReadAbstractNames();
  if (!names) GTEST_SKIP() << "the kernel has no unix_diag";
  std::map<std::string, std::string> inodes;
  for (const NamedSocket& socket : *names) {
    if (socket.name.find(unique) != std::string::npos) inodes[socket.name] = socket.inode;
  }
  EXPECT_EQ(inodes, (std::map<std::string, std::string>{{name, InodeOf(hostile)},
                                                        {unique, InodeOf(plain)}}));
}

TEST(DoctorReadingTest, KernelVersionAndProcessors) {
  FixtureTree tree;
  tree.Write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  tree.Write("/proc/cpuinfo",
             "processor\t: 0\nflags\t\t: fpu sse4_2 popcnt\n\nprocessor\t: 1\nflags\t\t: fpu\n");
  const KernelFacts facts = ReadKernel(tree.machine());
  EXPECT_EQ(facts.major, 6);
  EXPECT_EQ(facts.minor, 1);
  EXPECT_EQ(facts.cpus, 2);
  EXPECT_EQ(facts.cpu_flags, "fpu sse4_2 popcnt");
}

TEST(DoctorReadingTest, CapabilitiesAreTheEffectiveOnes) {
  FixtureTree tree;
  tree.Write("/proc/self/status", "Name:\turoce\nCapPrm:\tffff\nCapEff:\t0000000000003000\n");
  tree.Write("/dev/net/tun", "");
  const PermissionFacts facts = ReadPermissions(tree.machine());
  EXPECT_EQ(facts.capabilities, 0x3000u);
  EXPECT_TRUE(facts.tun.exists);
  EXPECT_FALSE(facts.userfaultfd.exists);
}

TEST(DoctorReadingTest, FieldIsFoundByItsWholeName) {
  EXPECT_EQ(FieldOf("CapEffX:\t1\nCapEff:\t2\n", "CapEff"), "2");
  EXPECT_EQ(FieldOf("CapEff", "CapEff"), std::nullopt);
}

}  // namespace
}  // namespace uroce::tools
