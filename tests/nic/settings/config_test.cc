// SPDX-License-Identifier: Apache-2.0
// Settings from flags and from the file: the same words, the same result, one line of complaint.
#include "nic/settings/config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nic/settings/config_file.h"
#include "nic/settings/flags.h"
#include "nic/settings/port_congestion.h"

namespace uroce::nic {
namespace {

absl::StatusOr<Config> FromFlags(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) return line.status();
  return MakeConfig(line->settings, "/run/uroce/uroced.sock");
}

absl::StatusOr<Config> FromFile(absl::string_view text) {
  const absl::StatusOr<std::vector<Setting>> settings = ParseConfigFile(text, "uroced.toml");
  if (!settings.ok()) return settings.status();
  return MakeConfig(*settings, "/run/uroce/uroced.sock");
}

InterfaceAddress Address(const char* text) { return ParseInterfaceAddress(text).value(); }

TEST(ConfigTest, NothingSaidGivesTwoNicsOnAnInProcessWire) {
  const absl::StatusOr<Config> config = FromFlags({});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 2u);
  EXPECT_EQ(config->devices[0].name, "uroce0");
  EXPECT_EQ(config->devices[1].name, "uroce1");
  EXPECT_EQ(config->devices[0].wire, 0);
  EXPECT_EQ(config->devices[1].wire, 0);
  EXPECT_EQ(config->devices[0].addresses,
            (std::vector{Address("10.0.0.1/24"), Address("fd00::1/64")}));
  EXPECT_EQ(config->devices[1].addresses,
            (std::vector{Address("10.0.0.2/24"), Address("fd00::2/64")}));
  EXPECT_EQ(config->socket_path, "/run/uroce/uroced.sock");
  EXPECT_EQ(config->workers, 1u);
}

TEST(ConfigTest, PortFieldsUseSemicolonsForCommas) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port",
                 "name=uroce0,dev=net_af_packet0;iface=veth0,ip=192.0.2.1/24+fd00::5/64,"
                 "mtu=4200,fault=drop=0.01;seed=3"});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 1u);
  const DeviceConfig& device = config->devices[0];
  EXPECT_EQ(device.name, "uroce0");
  EXPECT_EQ(device.dev, "net_af_packet0,iface=veth0");
  EXPECT_EQ(device.wire, -1);
  EXPECT_EQ(device.addresses, (std::vector{Address("192.0.2.1/24"), Address("fd00::5/64")}));
  EXPECT_EQ(device.mtu_bytes, 4200u);
  EXPECT_EQ(device.fault, "drop=0.01,seed=3");
}

TEST(ConfigTest, SwitchHasNicsWithAddressesThatCountOn) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--switch", "name=sw0,ports=8,rate=5G,delay=10us,buffer=1M,ecn=100K:400K:20%,pfc=off",
       "--switch", "ports=4"});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 12u);
  ASSERT_EQ(config->switches.size(), 2u);
  const SwitchSettings& first = config->switches[0];
  EXPECT_EQ(first.link.rate_bps, 5'000'000'000u);
  EXPECT_EQ(first.link.delay, Nanos(10'000));
  EXPECT_EQ(first.config.buffer_bytes, 1'000'000u);
  EXPECT_TRUE(first.config.ecn.on);
  EXPECT_EQ(first.config.ecn.min_bytes, 100'000u);
  EXPECT_EQ(first.config.ecn.max_bytes, 400'000u);
  EXPECT_DOUBLE_EQ(first.config.ecn.max_probability, 0.2);
  EXPECT_FALSE(first.config.pfc.on);
  EXPECT_EQ(config->switches[1].name, "sw1");
  EXPECT_EQ(config->devices[9].name, "uroce9");
  EXPECT_EQ(config->devices[9].at_switch, 1);
  EXPECT_EQ(config->devices[9].addresses,
            (std::vector{Address("10.0.0.10/24"), Address("fd00::a/64")}));
  EXPECT_EQ(config->devices[9].mtu_bytes, 9000u);
}

TEST(ConfigTest, SwitchMayHaveAddressesOfItsOwnAndLinksToOthers) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--switch", "name=leaf,ports=2,rate=10G,ip=10.1.0.255/16,link=spine+spine,link-rate=40G",
       "--switch", "name=spine,ports=0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[1].addresses, std::vector{Address("10.1.1.0/16")});
  EXPECT_EQ(config->switches[0].neighbours, (std::vector<std::string>{"spine", "spine"}));
  EXPECT_EQ(config->switches[0].trunk().rate_bps, 40'000'000'000u);
  EXPECT_EQ(config->switches[0].trunk().delay, Nanos(1'000));
}

TEST(ConfigTest, NicsOfASwitchTakeNamesThatAreFree) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--wire=uroce1=10.9.0.1/24,b=10.9.0.2/24", "--switch=ports=2", "--fault=uroce2:drop=0.1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[2].name, "uroce0");
  EXPECT_EQ(config->devices[3].name, "uroce2");
  EXPECT_EQ(config->devices[3].fault, "drop=0.1");
  EXPECT_EQ(config->devices[3].wire, -1);
}

// Of 400,000 bytes each of four links has 100,000. After a pause there arrive what is on the way in
// twice the delay, 2 * 10 us * 1 Gb/s = 2,500 bytes, and three frames of 9,018.
TEST(ConfigTest, PfcLeavesRoomForWhatArrivesAfterAPause) {
  const absl::StatusOr<Config> config =
      FromFlags({"--switch=ports=3,rate=1G,delay=10us,buffer=400K,pfc=on,link=b",
                 "--switch=name=b,ports=1", "--switch=name=c,ports=1,pfc=100K:50K"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->switches[0].config.pfc.on);
  EXPECT_EQ(config->switches[0].config.pfc.xoff_bytes, 100'000u - 2'500 - 3 * 9'018);
  EXPECT_LT(config->switches[0].config.pfc.xon_bytes, config->switches[0].config.pfc.xoff_bytes);
  EXPECT_EQ(config->switches[2].config.pfc.xoff_bytes, 100'000u);
  EXPECT_EQ(config->switches[2].config.pfc.xon_bytes, 50'000u);
}

TEST(ConfigTest, FileSaysSwitchesAsFlagsDo) {
  const absl::StatusOr<Config> config = FromFile(
      "[[switch]]\nname = \"a\"\nports = 2\nrate = \"1G\"\nlink = [\"b\", \"b\"]\n"
      "[[switch]]\nname = \"b\"\nports = 1\necn = \"off\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices.size(), 3u);
  EXPECT_EQ(config->switches[0].neighbours.size(), 2u);
  EXPECT_EQ(config->switches[0].link.rate_bps, 1'000'000'000u);
}

TEST(ConfigTest, ChangesOfASwitchHaveTheWordsOfItsSettings) {
  const auto change = ParseSwitchChange("rate=1G,ecn=off,link=down");
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->rate_bps, 1'000'000'000u);
  EXPECT_FALSE(change->ecn->on);
  EXPECT_EQ(change->is_up, false);
  EXPECT_FALSE(change->delay.has_value());
  EXPECT_FALSE(ParseSwitchChange("rate").ok());
  EXPECT_FALSE(ParseSwitchChange("ports=3").ok());
  EXPECT_FALSE(ParseSwitchChange("link=sideways").ok());
}

TEST(ConfigTest, SelectiveRepeatIsOnUnlessAPortOrAWireSaysOff) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,dev=net_null0,selective-repeat=off", "--port=name=b,dev=net_null1",
       "--port=name=c,dev=net_null2,selective-repeat=on",
       "--wire=d=10.0.0.1,e=10.0.0.2,selective-repeat=off", "--wire=f=10.0.0.3,g=10.0.0.4"});
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<std::pair<std::string, bool>> devices;
  for (const DeviceConfig& device : config->devices) {
    devices.emplace_back(device.name, device.selective_repeat);
  }
  EXPECT_EQ(devices, (std::vector<std::pair<std::string, bool>>{{"a", false},
                                                                {"b", true},
                                                                {"c", true},
                                                                {"d", false},
                                                                {"e", false},
                                                                {"f", true},
                                                                {"g", true}}));
}

TEST(ConfigTest, NicsInsideLeaveTheIcrcOutIfNotToldOtherwise) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1,b=10.0.0.2,icrc=always", "--wire=c=10.0.0.3,d=10.0.0.4",
                 "--switch=ports=1,icrc=always,ip=10.1.0.1/24",
                 "--switch=ports=1,icrc=needed,ip=10.2.0.1/24"});
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<bool> always;
  for (const DeviceConfig& device : config->devices) always.push_back(device.always_icrc);
  EXPECT_EQ(always, (std::vector<bool>{true, true, false, false, true, false}));
}

TEST(ConfigTest, SelectiveRepeatHasTheSameNameInFiles) {
  const absl::StatusOr<Config> config = FromFile(
      "[[port]]\nname = \"a\"\ndev = \"net_null0\"\nselective-repeat = \"off\"\n"
      "[[wire]]\nb = \"10.0.0.1\"\nc = \"10.0.0.2\"\nselective-repeat = \"off\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  for (const DeviceConfig& device : config->devices) EXPECT_FALSE(device.selective_repeat);
}

TEST(ConfigTest, CongestionControlIsByDelayOnAPortAndOffOnAWire) {
  using congestion::Profile;
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,dev=net_null0", "--port=name=b,dev=net_null1,cc.rpg_ai_rate=7,cc=dcqcn-mlx",
       "--wire=c=10.0.0.1,d=10.0.0.2", "--wire=e=10.0.0.3,cc=dcqcn,f=10.0.0.4,cc.cnp_dscp=46"});
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<Profile> profiles;
  for (const DeviceConfig& device : config->devices) {
    profiles.push_back(CongestionOf(device).profile);
  }
  EXPECT_EQ(profiles, (std::vector{Profile::kDelay, Profile::kDcqcnMlx, Profile::kOff,
                                   Profile::kOff, Profile::kDcqcn, Profile::kDcqcn}));
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_ai_rate, 7u);
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_hai_rate, 50u);
  EXPECT_EQ(CongestionOf(config->devices[5]).np.cnp_dscp, 46u);
}

TEST(ConfigTest, CongestionControlOfASwitchIsThatOfItsNics) {
  const absl::StatusOr<Config> config =
      FromFlags({"--switch=ports=2,cc=dcqcn-mlx,cc.rpg_gd=12", "--switch=name=sw1,ports=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(CongestionOf(config->devices[1]).profile, congestion::Profile::kDcqcnMlx);
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_gd, 12u);
  EXPECT_EQ(CongestionOf(config->devices[2]).profile, congestion::Profile::kDelay);
}

TEST(ConfigTest, APriorityMayHaveAProfileOfItsOwn) {
  using congestion::Profile;
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=a,dev=net_null0,cc.3=delay,cc.5=off,cc=dcqcn-mlx,cc.rpg_gd=12"});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto settings = CongestionOfPriorities(config->devices[0]);
  EXPECT_EQ(settings[0].profile, Profile::kDcqcnMlx);
  EXPECT_EQ(settings[3].profile, Profile::kDelay);
  EXPECT_EQ(settings[5].profile, Profile::kOff);
  EXPECT_EQ(settings[3].np.min_time_between_cnps, 50u) << "the defaults of its profile";
  EXPECT_EQ(settings[7].np.min_time_between_cnps, 4u);
  EXPECT_EQ(settings[3].rp.rpg_gd, 12u);
  for (const char* bad : {"cc.8=off", "cc.03=off", "cc.3=on"}) {
    const auto refused = FromFlags({absl::StrCat("--port=name=a,dev=net_null0,", bad)});
    EXPECT_FALSE(refused.ok()) << bad;
  }
  DeviceConfig device = config->devices[0];
  ASSERT_TRUE(ChangeCongestion("3=off", device.congestion).ok());
  EXPECT_EQ(CongestionOfPriorities(device)[3].profile, Profile::kOff);
}

TEST(ConfigTest, NicsAndUsersMayHaveARate) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=a,dev=net_null0,rate=2.5G", "--wire=b=10.0.0.1,rate=10M,c=10.0.0.2",
                 "--max-rate-per-user=1G"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[0].rate_bps, 2'500'000'000u);
  EXPECT_EQ(config->devices[1].rate_bps, 10'000'000u);
  EXPECT_EQ(config->devices[2].rate_bps, 10'000'000u);
  EXPECT_EQ(config->limits.rate_per_user_bps, 1'000'000'000u);
  const absl::StatusOr<Config> file = FromFile(
      "[limits]\nmax_rate_per_user = \"400G\"\n[[port]]\nname = \"a\"\n"
      "dev = \"net_null0\"\nrate = \"1M\"\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->limits.rate_per_user_bps, 400'000'000'000u);
  EXPECT_EQ(file->devices[0].rate_bps, 1'000'000u);
  for (const char* bad : {"rate=0", "rate=999K", "rate=401G", "rate=fast", "rate=-1G", "rate="}) {
    const auto refused = FromFlags({absl::StrCat("--port=name=a,dev=net_null0,", bad)});
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.status().message().find("1M to 400G"), absl::string_view::npos);
  }
  EXPECT_FALSE(FromFlags({"--max-rate-per-user=1"}).ok());
}

TEST(ConfigTest, FlowControlHasTheNamesOfEthtool) {
  using drivers::FlowControl;
  for (const auto& [text, mode] :
       {std::pair("off", FlowControl::kOff), std::pair("rx", FlowControl::kRx),
        std::pair("tx", FlowControl::kTx), std::pair("full", FlowControl::kFull)}) {
    const auto config =
        FromFlags({absl::StrCat("--port=name=a,dev=net_null0,flow-control=", text)});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->devices[0].flow_control, mode);
    EXPECT_STREQ(drivers::NameOf(mode), text);
  }
  EXPECT_FALSE(FromFlags({"--port=name=a,dev=net_null0"})->devices[0].flow_control);
  const auto refused = FromFlags({"--port=name=a,dev=net_null0,flow-control=on"});
  EXPECT_NE(refused.status().message().find("off, rx, tx, full"), absl::string_view::npos);
}

TEST(ConfigTest, CongestionControlHasTheSameNamesInFiles) {
  const absl::StatusOr<Config> config = FromFile(
      "[[port]]\nname = \"a\"\ndev = \"net_null0\"\ncc = \"dcqcn\"\n\"cc.rpg_threshold\" = 3\n");
  ASSERT_TRUE(config.ok()) << config.status();
  const congestion::Settings settings = CongestionOf(config->devices[0]);
  EXPECT_EQ(settings.profile, congestion::Profile::kDcqcn);
  EXPECT_EQ(settings.rp.rpg_threshold, 3u);
}

TEST(ConfigTest, CongestionControlIsChangedByHandAsAWhole) {
  DeviceConfig device;
  device.congestion.profile = congestion::Profile::kDcqcn;
  ASSERT_TRUE(
      ChangeCongestion("rpg_ai_rate=7,profile=dcqcn-mlx,rpg_gd=12", device.congestion).ok());
  EXPECT_EQ(CongestionOf(device).profile, congestion::Profile::kDcqcnMlx);
  EXPECT_EQ(CongestionOf(device).rp.rpg_ai_rate, 7u);
  EXPECT_EQ(CongestionOf(device).rp.rpg_gd, 12u);
  EXPECT_EQ(CongestionOf(device).rp.rpg_hai_rate, 50u);
  ASSERT_TRUE(ChangeCongestion("rpg_ai_rate=9", device.congestion).ok());
  EXPECT_EQ(CongestionOf(device).rp.rpg_ai_rate, 9u);
  EXPECT_EQ(device.congestion.parameters.size(), 2u);
  for (const char* bad : {"rpg_hai_rate=60,rpg_gd=16", "rpg_hai_rate=60,profile=on", "hai=60",
                          "rpg_hai_rate", "", "rpg_hai_rate=60,,"}) {
    EXPECT_EQ(ChangeCongestion(bad, device.congestion).code(), absl::StatusCode::kInvalidArgument)
        << bad;
  }
  EXPECT_EQ(CongestionOf(device).rp.rpg_hai_rate, 50u);
}

Route RouteOf(const char* text) { return ParseRoute(text).value(); }

TEST(ConfigTest, PortTakesVlansRoutesAndAnExceptionInterface) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port",
                 "name=a,dev=net_null0,\n  gateway=192.0.2.254+2001:db8::ff, exception=tap0,"
                 "route=10.9.0.0/16 via 192.0.2.7+2001:db8:9::/48 via fe80::7,"
                 "ip=192.0.2.1/24+2001:db8::1/64+10.5.0.1/24 vlan 100"});
  ASSERT_TRUE(config.ok()) << config.status();
  const DeviceConfig& device = config->devices[0];
  EXPECT_EQ(device.addresses, (std::vector{Address("192.0.2.1/24"), Address("2001:db8::1/64"),
                                           Address("10.5.0.1/24 vlan 100")}));
  EXPECT_EQ(device.addresses[2].vlan_id, 100);
  EXPECT_EQ(
      device.routes,
      (std::vector{RouteOf("0.0.0.0/0 via 192.0.2.254"), RouteOf("::/0 via 2001:db8::ff"),
                   RouteOf("10.9.0.0/16 via 192.0.2.7"), RouteOf("2001:db8:9::/48 via fe80::7")}));
  EXPECT_EQ(device.exception, "tap0");
}

TEST(ConfigTest, WireTakesVlans) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1/24+10.5.0.1/24 vlan 4094,b=10.5.0.2/24 vlan 1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[0].addresses[0].vlan_id, 0);
  EXPECT_EQ(config->devices[0].addresses[1].vlan_id, 4094);
  EXPECT_EQ(config->devices[1].addresses[0].vlan_id, 1);
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

TEST(ConfigTest, AddressesOfAKernelInterfaceMayBeGivenToo) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=a,dev=net_af_packet0;iface=eth0,ip=10.0.0.1/24 vlan 5"});
  ASSERT_TRUE(config.ok()) << config.status();
}

TEST(ConfigTest, PortsAndWiresAddUpInTheirOrder) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1/24,b=10.0.0.2/24", "--port=name=c,dev=net_null0",
                 "--wire=d=10.0.1.1/24,e="});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 5u);
  EXPECT_EQ(config->devices[1].wire, 0);
  EXPECT_EQ(config->devices[2].wire, -1);
  EXPECT_EQ(config->devices[3].wire, 1);
  EXPECT_EQ(config->devices[4].wire, 1);
  EXPECT_TRUE(config->devices[4].addresses.empty());
}

TEST(ConfigTest, FaultNamesAnyDevice) {
  const absl::StatusOr<Config> config =
      FromFlags({"--fault=uroce1:drop=0.01,seed=7", "--wire=uroce0=10.0.0.1,uroce1=10.0.0.2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[0].fault, "");
  EXPECT_EQ(config->devices[1].fault, "drop=0.01,seed=7");
}

TEST(ConfigTest, DashesAndUnderscoresAreTheSameInFlagNames) {
  const absl::StatusOr<Config> config =
      FromFlags({"--log-level=debug", "--share_userfaultfd", "--no-huge", "--max-qp", "100"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_TRUE(config->share_userfaultfd);
  EXPECT_TRUE(config->no_huge);
  EXPECT_EQ(config->limits.kinds.of(Kind::kQp).of_program, 100u);
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
    EXPECT_EQ(file->devices[i].dev, flags->devices[i].dev);
    EXPECT_EQ(file->devices[i].wire, flags->devices[i].wire);
    EXPECT_EQ(file->devices[i].addresses, flags->devices[i].addresses);
    EXPECT_EQ(file->devices[i].routes, flags->devices[i].routes);
    EXPECT_EQ(file->devices[i].exception, flags->devices[i].exception);
    EXPECT_EQ(file->devices[i].mtu_bytes, flags->devices[i].mtu_bytes);
    EXPECT_EQ(file->devices[i].fault, flags->devices[i].fault);
  }
}

TEST(ConfigTest, SwitchMayBeSetToFalse) {
  const absl::StatusOr<Config> config = FromFlags({"--no-huge", "--no-huge=false"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->no_huge);
}

TEST(ConfigTest, HelpNamesEverySetting) {
  const std::string help = HelpText();
  for (const SettingInfo& info : SettingInfos()) {
    std::string flag = info.key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    EXPECT_NE(help.find("--" + flag), std::string::npos) << info.key;
  }
}

TEST(ConfigTest, APortThatIsItsOwnHostOnAKernelInterfaceHasRoutes) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,dev=net_af_packet0;iface=eth0,host=uroce,ip=10.0.0.1/24,gateway=10.0.0.2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->devices[0].own_host);
  EXPECT_EQ(config->devices[0].routes.size(), 1u);
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
        BadFlags{{"--workers=x"}, {"--workers", "x"}}, BadFlags{{"--no-huge=maybe"}, {"maybe"}},
        BadFlags{{"--log-level=loud"}, {"loud", "debug"}},
        BadFlags{{"--max-qp=0"}, {"--max-qp", "0", "1"}},
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
        BadFlags{{"--fault=nobody:drop=0.1"}, {"--fault", "nobody"}}));

TEST(ConfigTest, FileTakesKeysAsFlagsSpellThem) {
  const absl::StatusOr<Config> config = FromFile(R"(
log-level = "debug"
flight_packets = 7
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
                    BadFile{"workers = 65", {"workers", "65"}},
                    BadFile{"workers = 1.5", {"workers"}}, BadFile{"max_qp = 5", {"[limits]"}},
                    BadFile{"[limits]\nsocket = \"x\"", {"limits.socket"}},
                    BadFile{"limits = 3", {"[limits]"}}, BadFile{"port = 3", {"[[port]]"}},
                    BadFile{"[port]\nname = \"a\"", {"[[port]]"}},
                    BadFile{"[[port]]\nname = \"a\"", {"dev"}},
                    BadFile{"[[port]]\nname = \"a\"\ndev = \"d\"\nip = [1]", {"port.ip"}},
                    BadFile{"[[wire]]\na = \"10.0.0.1\"", {"wire", "two ends"}}));

}  // namespace
}  // namespace uroce::nic
