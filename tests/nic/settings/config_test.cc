// SPDX-License-Identifier: Apache-2.0
// Settings from flags and from the file: the same words, the same result, one line of complaint.
#include "nic/settings/config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nic/settings/daemon_settings.h"
#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

TEST(ConfigTest, NothingSaidGivesTwoNicsOnAnInProcessWire) {
  const absl::StatusOr<Config> config = FromFlags({});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 2u);
  EXPECT_EQ(config->devices[0].name, "uroce0");
  EXPECT_EQ(config->devices[1].name, "uroce1");
  EXPECT_EQ(config->devices[0].kind, PortKind(CableEnd{0}));
  EXPECT_EQ(config->devices[1].kind, PortKind(CableEnd{0}));
  EXPECT_EQ(config->devices[0].addresses,
            (std::vector{Address("10.0.0.1/24"), Address("fd00::1/64")}));
  EXPECT_EQ(config->devices[1].addresses,
            (std::vector{Address("10.0.0.2/24"), Address("fd00::2/64")}));
  EXPECT_EQ(config->socket_path, "/run/uroce/uroced.sock");
  EXPECT_EQ(config->workers, 1u);
}

// The daemon chooses when it starts: see nic/base/cpu_limit.h.
TEST(ConfigTest, TheNumberOfWorkersMayBeLeftToTheDaemon) {
  EXPECT_EQ(ValueOf("workers", *FromFlags({})), "auto");
  absl::StatusOr<Config> config = FromFlags({"--workers=auto"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->has_auto_workers);
  EXPECT_EQ(ValueOf("workers", *config), "auto");
  config->workers = 4;
  config->usable_cpus = 16;
  config->usable_memory_bytes = uint64_t{3} << 30;
  EXPECT_EQ(WorkersChosen(*config), "4 workers: auto, 16 usable CPUs, 3072 MiB of usable memory");
  config->workers = config->usable_cpus = 1;
  EXPECT_EQ(WorkersChosen(*config), "1 worker: auto, 1 usable CPU, 3072 MiB of usable memory");
  const absl::StatusOr<Config> later = FromFlags({"--workers=auto", "--workers=2"});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->workers, 2u);
  EXPECT_EQ(ValueOf("workers", *later), "2");
  EXPECT_EQ(WorkersChosen(*later), "");
}

TEST(ConfigTest, WireInterfacesAreForTheEndsOfAllWiresAlone) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire-interfaces", "--port=name=p,dev=net_null0",
                 "--wire=a=10.0.0.1/24,b=10.0.0.2/24", "--wire=c=10.1.0.1/24,d=10.1.0.2/24"});
  ASSERT_TRUE(config.ok()) << config.status();
  for (const DeviceConfig& device : config->devices) {
    EXPECT_EQ(device.wire_interface, device.name != "p") << device.name;
  }
  const absl::StatusOr<Config> of_default = FromFlags({"--wire-interfaces"});
  ASSERT_TRUE(of_default.ok()) << of_default.status();
  EXPECT_TRUE(of_default->devices[1].wire_interface);
  EXPECT_FALSE(FromFlags({})->devices[1].wire_interface);
}

TEST(ConfigTest, FileAndFlagsGiveTheSameConfig) {
  const absl::StatusOr<Config> file = FromFile(R"(
socket = "/tmp/u.sock"
log_level = "warning"
no_huge = true
[limits]
max_mr = 17
[[port]]
name = "p0"
dev = "net_af_packet0,iface=veth0"
ip = ["192.0.2.1/24", "fd00::1/64"]
mtu = 4200
fault = "drop=0.01,seed=3"
[[port]]
name = "p1"
dev = "net_null0"
ip = ["192.0.2.8/24", "10.5.0.1/24 vlan 100"]
gateway = "192.0.2.254"
route = ["10.9.0.0/16 via 192.0.2.7", "10.8.0.0/16 via 10.5.0.7"]
exception = "tap0"
[[wire]]
w1 = "10.0.0.1/24"
w0 = ["10.0.0.2/24"]
)");
  const absl::StatusOr<Config> flags = FromFlags(
      {"--socket=/tmp/u.sock", "--log-level=warning", "--no-huge", "--max-mr=17",
       "--port=name=p0,dev=net_af_packet0;iface=veth0,ip=192.0.2.1/24+fd00::1/64,mtu=4200,"
       "fault=drop=0.01;seed=3",
       "--port=name=p1,dev=net_null0,ip=192.0.2.8/24+10.5.0.1/24 vlan 100,gateway=192.0.2.254,"
       "route=10.9.0.0/16 via 192.0.2.7+10.8.0.0/16 via 10.5.0.7,exception=tap0",
       "--wire=w1=10.0.0.1/24,w0=10.0.0.2/24"});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(file->socket_path, flags->socket_path);
  EXPECT_EQ(file->log_level, flags->log_level);
  EXPECT_EQ(file->no_huge, flags->no_huge);
  EXPECT_EQ(file->limits.kinds.of(Kind::kMr).of_program,
            flags->limits.kinds.of(Kind::kMr).of_program);
  ASSERT_EQ(file->devices.size(), flags->devices.size());
  for (size_t i = 0; i < file->devices.size(); ++i) {
    EXPECT_EQ(file->devices[i].name, flags->devices[i].name);
    EXPECT_EQ(file->devices[i].kind, flags->devices[i].kind);
    EXPECT_EQ(file->devices[i].addresses, flags->devices[i].addresses);
    EXPECT_EQ(file->devices[i].routes, flags->devices[i].routes);
    EXPECT_EQ(file->devices[i].exception, flags->devices[i].exception);
    EXPECT_EQ(file->devices[i].mtu_bytes, flags->devices[i].mtu_bytes);
    EXPECT_EQ(file->devices[i].fault.text, flags->devices[i].fault.text);
  }
}

struct BadFlags {
  std::vector<std::string> arguments;
  std::vector<std::string> words;  ///< What the one line must name.
};

class BadFlagsTest : public testing::TestWithParam<BadFlags> {};

TEST_P(BadFlagsTest, IsOneLineThatNamesKeyAndValue) {
  const absl::StatusOr<Config> config = FromFlags(GetParam().arguments);
  ASSERT_FALSE(config.ok());
  const std::string message(config.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& word : GetParam().words) {
    EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFlagsTest,
    testing::Values(
        BadFlags{{"--bogus=1"}, {"--bogus", "--help"}}, BadFlags{{"--work=1"}, {"--work"}},
        BadFlags{{"uroce0"}, {"uroce0"}}, BadFlags{{"--"}, {"--"}}, BadFlags{{"-x"}, {"-x"}},
        BadFlags{{"--socket"}, {"--socket", "value"}}, BadFlags{{"--socket="}, {"--socket"}},
        BadFlags{{"--help=1"}, {"--help"}}, BadFlags{{"--workers=65"}, {"--workers", "65", "64"}},
        BadFlags{{"--workers=x"}, {"--workers", "x", "auto"}},
        BadFlags{{"--workers=auto 2"}, {"auto 2"}}, BadFlags{{"--no-huge=maybe"}, {"maybe"}},
        BadFlags{{"--log-level=loud"}, {"loud", "debug"}},
        BadFlags{{"--max-qp=0"}, {"--max-qp", "0", "1"}},
        BadFlags{{"--limits=huge"}, {"--limits", "huge", "laptop", "shared", "server"}},
        BadFlags{{"--port=name=a"}, {"--port", "dev"}},
        BadFlags{{"--port=dev=net_null0"}, {"--port", "name"}},
        BadFlags{{"--port=name=a,dev=net_null0,speed=5"}, {"speed", "mtu"}},
        BadFlags{{"--port=name=a,name=b,dev=net_null0"}, {"name", "twice"}},
        BadFlags{{"--port=name=a,dev"}, {"dev", "key=value"}},
        BadFlags{{"--port=name=a b,dev=net_null0"}, {"a b", "letters"}},
        BadFlags{{"--port=name=a,dev=net_null0,mtu=9"}, {"mtu", "9", "352"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.300/24"}, {"10.0.0.300"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/33"}, {"/33", "32"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=224.0.0.1/24"}, {"224.0.0.1", "unicast"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=fd00::1/129"}, {"/129", "128"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/0"}, {"/0", "1"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24 vlan 0"}, {"vlan 0", "4094"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24 vlan 4095"}, {"4095", "4094"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24 vlan"}, {"vlan", "4094"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24 lan 5"}, {"lan 5", "vlan"}},
        BadFlags{{"--wire=a=10.0.0.1 vlan 9999,b="}, {"--wire", "9999"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,gateway=10.0.1.1"},
                 {"--port", "name=a", "gateway", "10.0.1.1", "prefix"}},
        BadFlags{{"--port=name=a,dev=net_null0,gateway=10.0.1.1"}, {"gateway", "10.0.1.1"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,gateway=10.0.0.1"},
                 {"10.0.0.1", "own address"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,gateway=10.0.0.2/24"},
                 {"10.0.0.2/24", "gateway"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,gateway=router"},
                 {"router", "gateway"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,gateway=10.0.0.2+10.0.0.3"},
                 {"10.0.0.2", "10.0.0.3", "same"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,route=10.9.0.0/16"},
                 {"10.9.0.0/16", "via"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,route=10.9.0.1/16 via 10.0.0.2"},
                 {"10.9.0.1/16", "bits"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,route=10.9.0.0/33 via 10.0.0.2"},
                 {"/33", "32"}},
        BadFlags{{"--port=name=a,dev=net_null0,ip=10.0.0.1/24,route=fd00::/16 via 10.0.0.2"},
                 {"fd00::/16", "family"}},
        BadFlags{{"--port=name=a,dev=net_af_packet0;iface=eth0,gateway=10.0.0.2"},
                 {"gateway", "eth0", "kernel's routes"}},
        BadFlags{{"--port=name=a,dev=net_af_packet0;iface=eth0,exception=tap0"},
                 {"exception", "eth0", "kernel"}},
        BadFlags{{"--port=name=a,dev=net_af_packet0;iface=eth0,host=me"},
                 {"host", "me", "kernel", "uroce"}},
        BadFlags{{"--port=name=a,dev=net_null0,host=uroce,exception=tap0"},
                 {"host=uroce", "exception"}},
        BadFlags{{"--port=name=a,dev=net_null0,exception=a/b"}, {"exception", "a/b"}},
        BadFlags{{"--port=name=a,dev=net_null0,exception=sixteen-letters-"},
                 {"exception", "sixteen-letters-", "15"}},
        BadFlags{{"--port=name=a,dev=net_null0,exception=tap%d"}, {"exception", "tap%d"}},
        BadFlags{{"--port=name=a,dev=net_null0", "--port=name=a,dev=net_null1"}, {"a", "twice"}},
        BadFlags{{"--port=name=a,dev=net_null0,selective-repeat=no"},
                 {"selective-repeat", "no", "off"}},
        BadFlags{{"--port=name=a,dev=net_null0,cc=swift"}, {"cc", "swift", "dcqcn-mlx", "delay"}},
        BadFlags{{"--port=name=a,dev=net_null0,cc.rpg_ai_rat=5"}, {"cc.rpg_ai_rat", "rpg_ai_rate"}},
        BadFlags{{"--port=name=a,dev=net_null0,cc.cnp_dscp=64"}, {"cc.cnp_dscp", "64", "63"}},
        BadFlags{{"--wire=a=10.0.0.1,b=10.0.0.2,cc=on"}, {"--wire", "cc", "on", "delay"}},
        BadFlags{{"--port=name=cc,dev=net_null0"}, {"cc", "key"}},
        BadFlags{{"--wire=a=10.0.0.1,b=10.0.0.2,selective-repeat=true"},
                 {"--wire", "selective-repeat", "true", "on"}},
        BadFlags{{"--wire=a=10.0.0.1,selective-repeat=off"}, {"--wire", "two ends"}},
        BadFlags{{"--wire=a=10.0.0.1,b=10.0.0.2,icrc=no"}, {"icrc", "no", "always"}},
        BadFlags{{"--wire=a=10.0.0.1,icrc=10.0.0.2"}, {"--wire", "icrc"}},
        BadFlags{{"--port=name=a,dev=net_null0,icrc=always"}, {"icrc", "unknown key"}},
        BadFlags{{"--wire=a=10.0.0.1"}, {"--wire", "two ends"}},
        BadFlags{{"--wire=a=10.0.0.1,b=10.0.0.2,c=10.0.0.3"}, {"--wire", "two ends"}},
        BadFlags{{"--wire=a=10.0.0.1,a=10.0.0.2"}, {"twice"}},
        BadFlags{{"--wire=a=10.0.0.1,b=10.0.0.1"}, {"10.0.0.1", "a", "b"}},
        BadFlags{{"--switch=ports=65"}, {"--switch", "ports=65", "0 to 64"}},
        BadFlags{{"--switch=ports=64", "--switch=ports=1"}, {"--switch", "64 devices"}},
        BadFlags{{"--switch=rat=1G"}, {"--switch", "rat", "did you mean rate"}},
        BadFlags{{"--switch=rate=1"}, {"--switch", "rate=1", "10G"}},
        BadFlags{{"--switch=delay=10"}, {"--switch", "delay=10", "10us"}},
        BadFlags{{"--switch=ecn=400K:100K:20%"}, {"--switch", "ecn", "100K:400K:20%"}},
        BadFlags{{"--switch=ecn=1K:2K:101%"}, {"--switch", "ecn"}},
        BadFlags{{"--switch=pfc=1K:2K"}, {"--switch", "pfc", "XOFF:XON"}},
        BadFlags{{"--switch=pfc=on,buffer=10K"}, {"--switch", "sw0", "pfc=on", "buffer="}},
        BadFlags{{"--switch=link=sw1", "--switch=name=sw2"}, {"link=sw1", "did you mean sw"}},
        BadFlags{{"--switch=link=sw0"}, {"link=sw0", "itself"}},
        BadFlags{{"--switch=name=a", "--switch=name=a"}, {"--switch", "\"a\"", "twice"}},
        BadFlags{{"--switch=ip=nonsense"}, {"--switch", "nonsense"}},
        BadFlags{{"--wire-interfaces", "--port=name=a,dev=net_null0"}, {"wire", "--switch"}},
        BadFlags{{"--fault=absent:drop=0.1"}, {"--fault", "absent"}}));

TEST(ConfigTest, NamesOfEarlierVersionsAreTakenAndToldApart) {
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine({"--flight-recorder", "/tmp", "--flight_packets=5", "--history-files=7"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->settings.size(), 3u);
  EXPECT_EQ(line->settings[0].key, "history_dir");
  EXPECT_EQ(line->settings[0].origin, "--flight-recorder");
  EXPECT_EQ(line->settings[1].key, "history_packets");
  EXPECT_TRUE(line->settings[0].has_former_name && line->settings[1].has_former_name);
  EXPECT_FALSE(line->settings[2].has_former_name);
  const absl::StatusOr<std::vector<Setting>> file = ParseConfigFile("flight-files = 3\n", "f.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->size(), 1u);
  EXPECT_EQ(file->front().key, "history_files");
  EXPECT_TRUE(file->front().has_former_name);
}

TEST(ConfigTest, FileTakesKeysAsFlagsSpellThem) {
  const absl::StatusOr<Config> config = FromFile(R"(
log-level = "debug"
history_packets = 7
[limits]
max-qp = 5
[[port]]
name = "under_score"
dev = "net_null0"
selective_repeat = "off"
cc.rpg_ai_rate = 20
[[wire]]
a_b = "10.0.0.1"
c = "10.0.0.2"
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_EQ(config->devices[0].name, "under_score");
  EXPECT_FALSE(config->devices[0].selective_repeat);
  EXPECT_EQ(config->devices[1].name, "a_b");
}

struct BadFile {
  const char* text;
  std::vector<std::string> words;
};

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, IsOneLineThatNamesFileAndKey) {
  const absl::StatusOr<Config> config = FromFile(GetParam().text);
  ASSERT_FALSE(config.ok());
  const std::string message(config.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_NE(message.find("uroced.toml"), std::string::npos) << message;
  for (const std::string& word : GetParam().words) {
    EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFileTest,
    testing::Values(BadFile{"socket = \n", {":1"}}, BadFile{"\n\nx y z\n", {":3"}},
                    BadFile{"\n\nbogus = 1", {"uroced.toml:3: bogus"}},
                    BadFile{"[limits]\nmax-qps = 1", {":2: limits.max-qps", "did you mean max_qp"}},
                    BadFile{"\n[[port]]\nname = \"a\"\ncolour = 1", {":2: port", "colour"}},
                    BadFile{"workers = 65", {"workers", "65", "auto"}},
                    BadFile{"workers = \"automatic\"", {"automatic", "64"}},

                    BadFile{"workers = 1.5", {"workers"}}, BadFile{"max_qp = 5", {"[limits]"}},
                    BadFile{"[limits]\nsocket = \"x\"", {"limits.socket"}},
                    BadFile{"limits = 3", {"[limits]"}},
                    BadFile{"[limits]\nprofile = \"huge\"", {":2: limits.profile", "laptop"}},
                    BadFile{"[limits]\nprofiel = \"laptop\"", {"did you mean profile"}},
                    BadFile{"port = 3", {"[[port]]"}},
                    BadFile{"[port]\nname = \"a\"", {"[[port]]"}},
                    BadFile{"[[port]]\nname = \"a\"", {"dev"}},
                    BadFile{"[[port]]\nname = \"a\"\ndev = \"d\"\nip = [1]", {"port.ip"}},
                    BadFile{"[[wire]]\na = \"10.0.0.1\"", {"wire", "two ends"}}));

}  // namespace
}  // namespace uroce::nic
