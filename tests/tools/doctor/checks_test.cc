// SPDX-License-Identifier: Apache-2.0
// What the checks say of facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>

#include <cerrno>

#include "pipeline/shm/abi/uroce_arena.h"
#include "tools/doctor/daemon.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/kernel.h"
#include "tools/doctor/network.h"

namespace uroce::tools {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

auto Says(Level level, const std::string& text, const std::string& fix) {
  return AllOf(Field(&Finding::level, level), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, HasSubstr(fix)));
}
auto IsOk() { return AllOf(Field(&Finding::level, Level::kOk), Field(&Finding::fix, "")); }

DaemonFacts GoodDaemon() {
  return {.socket = "/run/uroce/uroced.sock",
          .pid = 7,
          .version = UROCE_VERSION,
          .abi_version = UROCE_ABI_VERSION,
          .devices = {{.name = "uroce0",
                       .interface = "eth0",
                       .link_up = true,
                       .mtu_bytes = 9000,
                       .active_mtu = 4096,
                       .addresses = {"10.0.0.1/24"}}}};
}

TEST(DoctorDaemonTest, DaemonThatServesIsOk) {
  EXPECT_THAT(CheckDaemon(GoodDaemon(), "uroced"), Each(IsOk()));
}

TEST(DoctorDaemonTest, ADaemonThatIsStoppedIsToldApart) {
  DaemonFacts facts = GoodDaemon();
  facts.is_stopped = true;
  facts.devices.clear();
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              ElementsAre(Says(Level::kProblem, "stopped", "sudo kill -CONT 7")));
}

TEST(DoctorDaemonTest, EachWayToMissTheDaemonHasItsOwnWords) {
  DaemonFacts facts{.socket = "/x/s"};
  facts.connect_errno = ENOENT;
  EXPECT_THAT(
      CheckDaemon(facts, "bin/uroced"),
      ElementsAre(Says(Level::kProblem, "/x/s does not exist", "sudo bin/uroced --socket /x/s")));
  facts.connect_errno = ECONNREFUSED;
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              ElementsAre(Says(Level::kProblem, "left behind", "sudo uroced --socket /x/s")));
  facts.connect_errno = EACCES;
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              ElementsAre(Says(Level::kProblem, "may not connect", "sudo chmod 0666 /x/s")));
}

TEST(DoctorDaemonTest, OtherProtocolIsAProblemAndOtherReleaseANote) {
  DaemonFacts facts = GoodDaemon();
  facts.abi_version = UROCE_ABI_VERSION + 1;
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kProblem, "protocol", "sudo kill 7 && sudo uroced")));
  facts = GoodDaemon();
  facts.version = "0.0.9";
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Contains(Says(Level::kNote, "0.0.9", "sudo kill 7")));
}

TEST(DoctorDaemonTest, AnInterfaceThatIsGoneIsNotSetUp) {
  DaemonFacts facts = GoodDaemon();
  facts.devices[0].interface_exists = false;
  facts.devices[0].link_up = false;
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kProblem, "there is no interface eth0", "ip -brief link")));
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Not(Contains(Says(Level::kProblem, "is down", ""))));
}

TEST(DoctorDaemonTest, DevicesThatCannotCarryTrafficAreProblems) {
  DaemonFacts facts = GoodDaemon();
  facts.devices[0].link_up = false;
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kProblem, "is down", "sudo ip link set dev eth0 up")));
  facts = GoodDaemon();
  facts.devices[0].active_mtu = 0;
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Contains(Says(Level::kProblem, "too small", "mtu")));
  facts = GoodDaemon();
  facts.devices[0].addresses.clear();
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kProblem, "no IP address", "sudo ip addr add")));
}

TEST(DoctorDaemonTest, SmallPathMtuNamesTheMtuThatCarriesTheLargest) {
  DaemonFacts facts = GoodDaemon();
  facts.devices[0].mtu_bytes = 1500;
  facts.devices[0].active_mtu = 1024;
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Contains(Says(Level::kNote, "packets of 1024",
                                                          "sudo ip link set dev eth0 mtu 4200")));
}

TEST(DoctorDaemonTest, NoDriverIsToldToCarryMoreThanItCan) {
  DaemonFacts facts = GoodDaemon();
  facts.devices[0].driver = "net_tap";
  facts.devices[0].mtu_bytes = 1500;
  facts.devices[0].active_mtu = 1024;
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Each(IsOk()));
  facts.devices[0].driver = "net_af_xdp";
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Contains(Says(Level::kNote, "gives 2048", "mtu 2152")));
}

TEST(DoctorDaemonTest, WorkOfTheKernelThatARightSavesIsNamed) {
  DaemonFacts facts = GoodDaemon();
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Not(Contains(Says(Level::kOk, "CAP_BPF", ""))));
  facts.devices[0].driver = "net_iface";
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Contains(Says(Level::kOk, "CAP_BPF", "")));
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Each(IsOk()));
  facts.devices[0].drops_early = true;
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Not(Contains(Says(Level::kOk, "CAP_BPF", ""))));
}

TEST(DoctorDaemonTest, AddressesOfAWireThatTheKernelDoesNotKnowAreANoteWithTheOption) {
  DaemonFacts facts = GoodDaemon();
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Each(IsOk())) << "not of other ports";
  facts.devices[0].driver = "wire";
  facts.devices[0].addresses = {"10.0.0.1/24", "fd00::1/64"};
  facts.devices.push_back(facts.devices[0]);
  facts.kernel_addresses = {"127.0.0.1", "10.0.0.1"};
  const Findings findings = CheckDaemon(facts, "uroced");
  EXPECT_THAT(findings, Contains(Says(Level::kNote, "uroce0: the kernel does not know fd00::1;",
                                      "sudo kill 7 && sudo uroced --wire-interfaces &"))
                            .Times(1));
  facts.flags = {"--wire", "a b=10.0.0.1/24"};
  EXPECT_THAT(
      CheckDaemon(facts, "uroced"),
      Contains(Says(Level::kNote, "", "sudo uroced --wire 'a b=10.0.0.1/24' --wire-interfaces &")));
  facts.kernel_addresses.insert("fd00::1");
  EXPECT_THAT(CheckDaemon(facts, "uroced"), Each(IsOk()));
}

TEST(DoctorDaemonTest, DumpIsReadAndAnotherKindRefused) {
  DaemonFacts facts;
  EXPECT_TRUE(ParseDevices(R"({"devices": [{"name": "a", "link": "up", "mtu": 1500,
                               "active_mtu": 1024, "kernel_drops_early": true,
                               "addresses": ["10.0.0.1/24"]}, 5],
                               "daemon": {"version": "1.2", "abi_version": 3}})",
                           facts));
  ASSERT_EQ(facts.devices.size(), 1u);
  EXPECT_TRUE(facts.devices[0].link_up);
  EXPECT_EQ(facts.devices[0].interface_exists, facts.devices[0].interface.empty());
  EXPECT_EQ(facts.devices[0].active_mtu, 1024u);
  EXPECT_TRUE(facts.devices[0].drops_early);
  EXPECT_EQ(facts.devices[0].addresses, std::vector<std::string>{"10.0.0.1/24"});
  EXPECT_EQ(facts.version, "1.2");
  EXPECT_EQ(facts.abi_version, 3u);
  for (const char* text : {"", "[]", R"({"devices": 5})"}) {
    EXPECT_FALSE(ParseDevices(text, facts)) << text;
  }
}

ContentionFacts Contended(uint64_t cpu_ms, uint64_t cpu_wait_ms) {
  return {
      .daemon = 7,
      .processors = 2,
      .workers = {
          {.worker = 0, .cpu_ms = 100'000},
          {.worker = 1, .cpu_ms = cpu_ms, .cpu_wait_ms = cpu_wait_ms, .involuntary_switches = 40}}};
}

TEST(DoctorContentionTest, AWorkerThatWaitsForATenthOfItsTimeIsANote) {
  EXPECT_THAT(CheckContention(Contended(9000, 1000)),
              ElementsAre(IsOk(), Says(Level::kNote,
                                       "worker 1 had no CPU for 10.0 % of the time that it could "
                                       "have run: 1.0 s, 40 times taken",
                                       "sudo renice -n -5 -p $(ls /proc/7/task)")));
  EXPECT_THAT(CheckContention(Contended(9001, 1000)), Each(IsOk())) << "less than a tenth";
  EXPECT_THAT(CheckContention(Contended(1, 999)), Each(IsOk())) << "less than a second";
  EXPECT_THAT(CheckContention(Contended(0, 0)), Each(IsOk())) << "never ran";
}

TEST(DoctorContentionTest, MoreWorkersThanCpusWaitForEachOther) {
  ContentionFacts facts = Contended(5000, 5000);
  facts.processors = 1;
  EXPECT_THAT(CheckContention(facts),
              Contains(Says(Level::kNote, "2 workers share 1 CPUs", "uroced --workers 1")));
}

TEST(DoctorContentionTest, ADaemonThatDoesNotTellIsNotJudged) {
  ContentionFacts facts;
  ParseWorkers("nonsense", facts);
  ParseWorkers(R"({"workers": [{"worker": 0, "busy_ms": 5}, 3]})", facts);
  EXPECT_THAT(CheckContention(facts), ElementsAre());
  ParseWorkers(R"({"workers": [{"worker": 3, "cpu_ms": 2000, "cpu_wait_ms": 2000,
                                "involuntary_switches": 9}]})",
               facts);
  facts.processors = 4;
  EXPECT_THAT(CheckContention(facts),
              ElementsAre(Says(Level::kNote, "worker 3 had no CPU for 50.0 %", "renice")));
}

TEST(DoctorHugepagesTest, NoneOrFewAreANote) {
  EXPECT_THAT(CheckHugepages({}, false),
              ElementsAre(Says(Level::kNote, "none", "sudo sysctl -w vm.nr_hugepages=")));
  EXPECT_THAT(CheckHugepages({{2 << 20, 512, 10}}, false),
              ElementsAre(Says(Level::kNote, "20 MiB free", "sudo sysctl")));
}

TEST(DoctorHugepagesTest, PagesThatARunningDaemonTookAreOk) {
  EXPECT_THAT(CheckHugepages({{2 << 20, 512, 10}}, true), ElementsAre(IsOk()));
}

TEST(DoctorPermissionsTest, RootHasAllAndOthersHearWhatTheyLack) {
  const uint64_t network = 1ull << CAP_NET_RAW | 1ull << CAP_NET_ADMIN;
  EXPECT_THAT(
      CheckPermissions({.capabilities = network, .userfaultfd = {true, true}, .tun = {true, true}}),
      Each(IsOk()));
  const Findings findings = CheckPermissions({.capabilities = 1ull << CAP_NET_RAW,
                                              .userfaultfd = {true, false},
                                              .tun = {false, false},
                                              .userfaultfd_errno = 0});
  EXPECT_THAT(findings, ElementsAre(Says(Level::kNote, "no CAP_NET_ADMIN:", "sudo uroced"),
                                    Says(Level::kNote, "/dev/net/tun is missing", "modprobe tun"),
                                    Says(Level::kNote, "/dev/userfaultfd", "sysctl")));
}

TEST(DoctorPermissionsTest, ARefusedSystemCallMeansAHandlerOfSegv) {
  EXPECT_THAT(CheckPermissions({.userfaultfd_errno = EPERM}),
              Contains(Says(Level::kOk, "wait in a handler of SIGSEGV", "")));
}

TEST(DoctorLimitsTest, FourFifthsOfALimitAreAProblem) {
  const ProcessFacts process{
      .pid = 5, .name = "app", .maps = 79, .open_files = 79, .max_files = 100};
  EXPECT_THAT(CheckLimits({.max_map_count = 100, .processes = {process}}), ElementsAre(IsOk()));
  ProcessFacts full = process;
  full.maps = full.open_files = 80;
  EXPECT_THAT(CheckLimits({.max_map_count = 100, .processes = {full}}),
              ElementsAre(Says(Level::kProblem, "app (pid 5) has 80 of 100 mappings",
                               "sudo sysctl -w vm.max_map_count="),
                          Says(Level::kProblem, "files open", "sudo prlimit --pid 5 --nofile=")));
}

TEST(DoctorLimitsTest, UnknownOrUnlimitedIsNoProblem) {
  EXPECT_THAT(
      CheckLimits(
          {.processes = {{.pid = 5, .maps = 1000000, .open_files = 1000000, .max_files = ~0ull}}}),
      ElementsAre(IsOk()));
}

TEST(DoctorLimitsTest, SmallReceiveBuffersMatterToPortsByUdpSockets) {
  EXPECT_THAT(CheckLimits({.rmem_max_bytes = 4 << 20}), ElementsAre(IsOk()));
  EXPECT_THAT(CheckLimits({.rmem_max_bytes = 212992}),
              ElementsAre(Says(Level::kNote, "net.core.rmem_max is 208 KiB",
                               "sudo sysctl -w net.core.rmem_max=33554432")));
}

TEST(DoctorLimitsTest, MemlockMattersToVfioOnly) {
  EXPECT_THAT(CheckLimits({.memlock_bytes = 65536}), ElementsAre(IsOk()));
  EXPECT_THAT(CheckLimits({.memlock_bytes = 65536, .vfio_in_use = true}),
              ElementsAre(Says(Level::kProblem, "memlock is 64 KiB", "ulimit -l unlimited")));
}

TEST(DoctorNicsTest, NicWithoutDriverHearsHowToBindIt) {
  EXPECT_THAT(
      CheckNics(
          {.nics = {{.address = "0000:01:00.0", .iommu_group = "3"}}, .has_vfio_driver = true}),
      ElementsAre(Says(Level::kNote, "no driver", "dpdk-devbind.py -b vfio-pci 0000:01:00.0")));
}

TEST(DoctorNicsTest, KernelsNicCanMoveOnlyWithVfioAndIommu) {
  const PciNic isolated{.address = "1", .driver = "ixgbe", .interfaces = {"e"}, .iommu_group = "3"};
  EXPECT_THAT(CheckNics({.nics = {isolated}, .has_vfio_driver = true}),
              ElementsAre(Says(Level::kOk, "vfio-pci can have it", "")));
  EXPECT_THAT(CheckNics({.nics = {isolated}}),
              Contains(Says(Level::kNote, "not loaded", "sudo modprobe vfio-pci")));
  const PciNic bare{.address = "1", .driver = "ixgbe", .interfaces = {"e"}};
  EXPECT_THAT(CheckNics({.nics = {bare}, .has_vfio_driver = true}),
              Contains(Says(Level::kNote, "no IOMMU", "enable_unsafe_noiommu_mode")));
}

TEST(DoctorNicsTest, BoundNicThatMayNotBeOpenedIsAProblem) {
  PciNic nic{.address = "0000:01:00.0", .driver = "vfio-pci", .iommu_group = "3"};
  EXPECT_THAT(CheckNics({.nics = {nic}}),
              ElementsAre(Says(Level::kProblem, "may not be opened", "/dev/vfio/3")));
  nic.vfio_usable = true;
  EXPECT_THAT(CheckNics({.nics = {nic}}), ElementsAre(IsOk()));
}

TEST(DoctorInterfacesTest, PathMtuLeavesRoomForAllHeaders) {
  EXPECT_EQ(RoceMtu(9000), 4096u);
  EXPECT_EQ(RoceMtu(4192), 4096u);
  EXPECT_EQ(RoceMtu(4191), 2048u);
  EXPECT_EQ(RoceMtu(1500), 1024u);
  EXPECT_EQ(RoceMtu(352), 256u);
  EXPECT_EQ(RoceMtu(351), 0u);
}

TEST(DoctorInterfacesTest, InterfaceTooSmallForRoceHearsTheCommand) {
  EXPECT_THAT(CheckInterfaces({{"eth0", 300, true}, {"eth1", 300, false}}),
              ElementsAre(Says(Level::kNote, "too small", "sudo ip link set dev eth0 mtu 4200")));
}

TEST(DoctorKernelTest, OldKernelsAndProcessorsAreTold) {
  const KernelFacts good{.major = 6,
                         .minor = 2,
                         .cpus = 2,
                         .cpu_flags = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
                         .crc_kernel = "pclmul128"};
  EXPECT_THAT(CheckKernel(good), Each(IsOk()));
  KernelFacts facts = good;
  facts.major = 5, facts.minor = 13;
  EXPECT_THAT(CheckKernel(facts), Contains(Says(Level::kProblem, "5.13", "apt-get")));
  facts.minor = 15;
  EXPECT_THAT(CheckKernel(facts), Contains(Says(Level::kNote, "5.15", "apt-get")));
  facts.major = 6, facts.minor = 1;
  EXPECT_THAT(CheckKernel(facts), Contains(Says(Level::kNote, "6.1", "apt-get")));
  facts = good;
  facts.cpu_flags = "cx16 lahf_lm sse4_1 sse4_2 ssse3";
#ifdef __x86_64__
  EXPECT_THAT(CheckKernel(facts), Contains(Says(Level::kProblem, "lacks popcnt", "-cpu host")));
#else
  EXPECT_THAT(CheckKernel(facts), Each(IsOk())) << "flags of another processor";
#endif
  facts = good;
  facts.page_bytes = 65536;
  EXPECT_THAT(CheckKernel(facts), Contains(Says(Level::kProblem, "64 KB", "linux-image")));
}

TEST(DoctorRocePortTest, OnlyADaemonOfOursMayHoldThePortBesideAKernelInterface) {
  EXPECT_THAT(CheckRocePort({}, true), ElementsAre(IsOk()));
  EXPECT_THAT(CheckRocePort({.holders = {{3, "uroced"}}}, true), ElementsAre(IsOk()));
  EXPECT_THAT(CheckRocePort({.holders = {{3, "thing"}}}, true),
              ElementsAre(Says(Level::kProblem, "thing (pid 3)", "sudo kill 3")));
  const RocePortFacts rxe{.holders = {{}}, .rxe_loaded = true, .rdma_devices = {"rxe_eth0"}};
  EXPECT_THAT(CheckRocePort(rxe, true),
              ElementsAre(Says(Level::kProblem, "rdma_rxe", "sudo rdma link delete rxe_eth0")));
  EXPECT_THAT(CheckRocePort({.holders = {{}}}, true), ElementsAre(IsOk()));
}

TEST(DoctorRocePortTest, OthersOnThePortAreANoteWhereNoInterfaceIsShared) {
  EXPECT_THAT(CheckRocePort({.holders = {{3, "thing"}}}, false),
              ElementsAre(Says(Level::kNote, "thing (pid 3)", "sudo kill 3")));
}

TEST(DoctorAddressesTest, OfTwoNicsWithOneAddressTheOtherDaemonIsTheOneToEnd) {
  EXPECT_THAT(CheckSharedAddresses({}, 7), ElementsAre(IsOk()));
  const SharedAddresses shared{"eth0", {"192.0.2.1", "fd00::1"}, {{7, "uroced"}, {9, "uroced"}}};
  EXPECT_THAT(CheckSharedAddresses({shared}, 7),
              ElementsAre(Says(Level::kProblem,
                               "192.0.2.1, fd00::1 of eth0: served by uroced (pid 7) and by "
                               "uroced (pid 9)",
                               "sudo kill 9")));
  EXPECT_EQ(CheckSharedAddresses({shared}, 9)[0].fix, "sudo kill 7");
}

TEST(DoctorAddressesTest, ADaemonThatHasAnAddressTwiceIsNotEnded) {
  const SharedAddresses own{"eth0", {"192.0.2.1"}, {{7, "uroced"}, {7, "uroced"}}};
  EXPECT_EQ(CheckSharedAddresses({own}, 7)[0].fix, "");
  const SharedAddresses unseen{"eth0", {"192.0.2.1"}, {{0, ""}, {7, "uroced"}}};
  EXPECT_THAT(CheckSharedAddresses({unseen}, 7),
              ElementsAre(Says(Level::kProblem, "root sees which", "")));
}

TEST(DoctorProgramsTest, MissingPackagesAndLibrariesAreNamed) {
  const ProgramFacts good{.found = {"ibv_devinfo", "ib_write_bw", "tshark"},
                          .library = "/lib/liburoce.so",
                          .has_front = true,
                          .has_libibverbs = true,
                          .extcap_installed = true,
                          .uroce = "/bin/uroce"};
  EXPECT_THAT(CheckPrograms(good), ElementsAre(IsOk()));
  ProgramFacts facts = good;
  facts.extcap_installed = false;
  EXPECT_THAT(CheckPrograms(facts),
              ElementsAre(Says(Level::kNote, "Wireshark", "sudo /bin/uroce extcap --install")));
  facts = good;
  facts.has_front = false;
  EXPECT_THAT(CheckPrograms(facts),
              ElementsAre(Says(Level::kProblem, "liburoce-verbs.so", "ninja")));
  facts = {.found = {"ibv_devinfo", "tshark"}, .extcap_installed = true};
  EXPECT_THAT(CheckPrograms(facts),
              ElementsAre(Says(Level::kProblem, "liburoce.so", "ninja"),
                          Says(Level::kProblem, "libibverbs.so.1", "apt-get install libibverbs1"),
                          Says(Level::kNote, "ib_write_bw", "apt-get install perftest")));
}

TEST(DoctorTest, FindingsAreLinesWithTheirCommandBelow) {
  const Findings findings = {{Level::kOk, "kernel", "Linux 6.1", ""},
                             {Level::kProblem, "daemon", "none runs", "sudo uroced &"}};
  EXPECT_EQ(RenderFindings(findings),
            "ok       kernel        Linux 6.1\n"
            "problem  daemon        none runs\n"
            "                         sudo uroced &\n"
            "1 problem, 0 notes\n");
  EXPECT_THAT(FindingsToJson(findings), HasSubstr("\"problems\": 1"));
  EXPECT_THAT(FindingsToJson(findings), HasSubstr("\"fix\": \"sudo uroced &\""));
}

// Any user chooses the name of a process, and root may read the findings.
TEST(DoctorTest, NamesOfProcessesForgeNothing) {
  const Findings findings = {
      {Level::kNote, "udp 4791", "held by \x1b[2J\nok \xff (pid 5)", "sudo kill 5\r"}};
  EXPECT_EQ(RenderFindings(findings),
            "note     udp 4791      held by ?[2J?ok \xff (pid 5)\n"
            "                         sudo kill 5?\n"
            "0 problems, 1 note\n");
  EXPECT_THAT(FindingsToJson(findings), HasSubstr("held by \\u001b[2J\\nok \xef\xbf\xbd (pid 5)"));
}

TEST(DoctorDaemonTest, AFlowThatItsWindowStarvesIsNamed) {
  DaemonFacts facts = GoodDaemon();
  ParseFlows(R"({"flows": [
      {"pid": 5, "program": "fio", "device": "uroce0", "remote": "10.0.0.2", "window_packets": 16,
       "round_trip_us": 7000.5, "shortest_us": 200, "target_us": 260},
      {"pid": 6, "window_packets": 17, "round_trip_us": 7000, "shortest_us": 200},
      {"pid": 7, "window_packets": 16, "round_trip_us": 7000, "shortest_us": 701},
      {"pid": 8, "window_packets": 16, "round_trip_us": 999, "shortest_us": 9},
      {"pid": 9, "window_packets": 16}, 3]})",
             facts);
  ASSERT_EQ(facts.starved_flows.size(), 1u);
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kNote, "fio (pid 5) to 10.0.0.2: round trips take 7000 us",
                            "uroce cc set uroce0 profile=dcqcn")));
  ParseFlows("[]", facts);
  ParseFlows("{", facts);
  EXPECT_EQ(facts.starved_flows.size(), 1u);
}

TEST(DoctorDaemonTest, MemoryThatIsCopiedForItsManyPartsIsSaid) {
  DaemonFacts facts = GoodDaemon();
  ParseRegions(R"({"mrs": [{"pid": 5, "program": "spdk", "segments": [
      {"length": 4096, "reason": ""}, {"length": 81920, "reason": "too many parts"}]},
      {"pid": 6, "segments": [{"length": 1, "reason": "stack"}]}, {"pid": 7}, 3]})",
               facts);
  EXPECT_THAT(facts.program_pids, ElementsAre(5, 6, 7));
  EXPECT_THAT(CheckDaemon(facts, "uroced"),
              Contains(Says(Level::kNote, "spdk (pid 5): 81920 bytes", "")));
  ASSERT_EQ(facts.cut_regions.size(), 1u);
  ParseRegions("[]", facts);
  ParseRegions("{", facts);
  EXPECT_EQ(facts.cut_regions.size(), 1u);
}

}  // namespace
}  // namespace uroce::tools
