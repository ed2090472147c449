// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/nic_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

Route RouteOf(const char* text) { return ParseRoute(text).value(); }

TEST(NicSettingsTest, PortFieldsUseSemicolonsForCommas) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port",
                 "name=uroce0,dev=net_af_packet0;iface=veth0,ip=192.0.2.1/24+fd00::5/64,"
                 "mtu=4200,fault=drop=0.01;seed=3"});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 1u);
  const DeviceConfig& device = config->devices[0];
  EXPECT_EQ(device.name, "uroce0");
  const auto* const dpdk = std::get_if<drivers::DpdkDevice>(&device.kind);
  ASSERT_NE(dpdk, nullptr);
  EXPECT_EQ(dpdk->text, "net_af_packet0,iface=veth0");
  EXPECT_EQ(dpdk->arguments.Interface(), "veth0");
  EXPECT_EQ(device.addresses, (std::vector{Address("192.0.2.1/24"), Address("fd00::5/64")}));
  EXPECT_EQ(device.mtu_bytes, 4200u);
  EXPECT_EQ(device.fault.text, "drop=0.01,seed=3");
}

TEST(NicSettingsTest, EachKindOfPortIsAType) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,iface=eth0", "--port=name=b,udp=eth0", "--port=name=c,udp=192.0.2.1+fd00::1",
       "--port=name=d,dev=net_memif0;role=server;socket=/run/m.sock", "--port=name=e,dev=0:3b:00.0",
       "--port=name=f,dev=net_iface7;iface=eth1"});
  ASSERT_TRUE(config.ok()) << config.status();
  using drivers::KernelInterface;
  EXPECT_EQ(std::get<KernelInterface>(config->devices[0].kind).interface, "eth0");
  EXPECT_EQ(std::get<drivers::UdpSocket>(config->devices[1].kind).place.interface, "eth0");
  const auto& udp = std::get<drivers::UdpSocket>(config->devices[2].kind);
  EXPECT_EQ(udp.place.interface, "");
  EXPECT_EQ(udp.place.addresses, (std::vector{Address("192.0.2.1").gid, Address("fd00::1").gid}));
  EXPECT_EQ(udp.identity, "net_udp||192.0.2.1+fd00::1||||||");
  EXPECT_TRUE(std::get<drivers::MemifConfig>(config->devices[3].kind).is_server);
  EXPECT_TRUE(std::get<drivers::DpdkDevice>(config->devices[4].kind).arguments.IsPci());
  EXPECT_EQ(std::get<KernelInterface>(config->devices[5].kind).device, "net_iface7");
}

TEST(NicSettingsTest, AnUnknownDeviceIsRefusedWhereItIsRead) {
  for (const auto& [dev, said] : {std::pair{"veth0", "neither a PCI address nor a DPDK driver"},
                                  {"net_memif0;role=client", "socket=: a path is missing"},
                                  {"net_tap0;mac=1", "mac=1 is no unicast address"}}) {
    const absl::StatusOr<Config> config = FromFlags({std::string("--port=name=a,dev=") + dev});
    ASSERT_FALSE(config.ok()) << dev;
    EXPECT_NE(config.status().message().find(said), absl::string_view::npos) << config.status();
  }
}

TEST(NicSettingsTest, SwitchHasNicsWithAddressesThatCountOn) {
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
  EXPECT_EQ(config->devices[9].kind, PortKind(SwitchPort{1}));
  EXPECT_EQ(config->devices[9].addresses,
            (std::vector{Address("10.0.0.10/24"), Address("fd00::a/64")}));
  EXPECT_EQ(config->devices[9].mtu_bytes, 9000u);
}

TEST(NicSettingsTest, NicsOfASwitchTakeNamesThatAreFree) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--wire=uroce1=10.9.0.1/24,b=10.9.0.2/24", "--switch=ports=2", "--fault=uroce2:drop=0.1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[2].name, "uroce0");
  EXPECT_EQ(config->devices[3].name, "uroce2");
  EXPECT_EQ(config->devices[3].fault.text, "drop=0.1");
  EXPECT_EQ(config->devices[3].kind, PortKind(SwitchPort{0}));
}

// As "uroce config show" writes it: a file has ports before switches.
TEST(NicSettingsTest, APortOfASwitchIsOneMoreOfIts) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=n,switch=sw0,ip=10.0.0.9/24,rate=5G",
                 "--switch=name=sw0,ports=2,mtu=1500,cc=delay", "--fault=n:drop=0.1"});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 3u);
  const DeviceConfig& nic = config->devices[2];
  EXPECT_EQ(nic.name, "n");
  EXPECT_EQ(nic.kind, PortKind(SwitchPort{0}));
  EXPECT_EQ(nic.mtu_bytes, 1500u);
  EXPECT_EQ(nic.rate_bps, 5'000'000'000u);
  EXPECT_EQ(nic.fault.text, "drop=0.1");
  EXPECT_EQ(nic.addresses, std::vector{Address("10.0.0.9/24")});
  EXPECT_EQ(config->switches[0].ports, 3u);
  EXPECT_FALSE(FromFlags({"--port=name=n,switch=sw0,ip=10.0.0.9/24"}).ok());
}

TEST(NicSettingsTest, SelectiveRepeatIsOnUnlessAPortOrAWireSaysOff) {
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

TEST(NicSettingsTest, NicsInsideLeaveTheIcrcOutIfNotToldOtherwise) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1,b=10.0.0.2,icrc=always", "--wire=c=10.0.0.3,d=10.0.0.4",
                 "--switch=ports=1,icrc=always,ip=10.1.0.1/24",
                 "--switch=ports=1,icrc=needed,ip=10.2.0.1/24"});
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<bool> always;
  for (const DeviceConfig& device : config->devices) always.push_back(device.always_icrc);
  EXPECT_EQ(always, (std::vector<bool>{true, true, false, false, true, false}));
}

TEST(NicSettingsTest, SelectiveRepeatHasTheSameNameInFiles) {
  const absl::StatusOr<Config> config = FromFile(
      "[[port]]\nname = \"a\"\ndev = \"net_null0\"\nselective-repeat = \"off\"\n"
      "[[wire]]\nb = \"10.0.0.1\"\nc = \"10.0.0.2\"\nselective-repeat = \"off\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  for (const DeviceConfig& device : config->devices) EXPECT_FALSE(device.selective_repeat);
}

TEST(NicSettingsTest, NicsAndUsersMayHaveARate) {
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

TEST(NicSettingsTest, FlowControlHasTheNamesOfEthtool) {
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

TEST(NicSettingsTest, PortTakesVlansRoutesAndAnExceptionInterface) {
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

TEST(NicSettingsTest, WireTakesVlans) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1/24+10.5.0.1/24 vlan 4094,b=10.5.0.2/24 vlan 1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[0].addresses[0].vlan_id, 0);
  EXPECT_EQ(config->devices[0].addresses[1].vlan_id, 4094);
  EXPECT_EQ(config->devices[1].addresses[0].vlan_id, 1);
}

TEST(NicSettingsTest, AddressesOfAKernelInterfaceMayBeGivenToo) {
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=a,dev=net_af_packet0;iface=eth0,ip=10.0.0.1/24 vlan 5"});
  ASSERT_TRUE(config.ok()) << config.status();
}

TEST(NicSettingsTest, PortsAndWiresAddUpInTheirOrder) {
  const absl::StatusOr<Config> config =
      FromFlags({"--wire=a=10.0.0.1/24,b=10.0.0.2/24", "--port=name=c,dev=net_null0",
                 "--wire=d=10.0.1.1/24,e="});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->devices.size(), 5u);
  EXPECT_EQ(config->devices[1].kind, PortKind(CableEnd{0}));
  EXPECT_EQ(config->devices[2].cable(), nullptr);
  EXPECT_EQ(config->devices[3].kind, PortKind(CableEnd{1}));
  EXPECT_EQ(config->devices[4].kind, PortKind(CableEnd{1}));
  EXPECT_TRUE(config->devices[4].addresses.empty());
}

TEST(NicSettingsTest, FaultNamesAnyDevice) {
  const absl::StatusOr<Config> config =
      FromFlags({"--fault=uroce1:drop=0.01,seed=7", "--wire=uroce0=10.0.0.1,uroce1=10.0.0.2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[0].fault.text, "");
  EXPECT_EQ(config->devices[1].fault.text, "drop=0.01,seed=7");
}

TEST(NicSettingsTest, APortThatIsItsOwnHostOnAKernelInterfaceHasRoutes) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,dev=net_af_packet0;iface=eth0,host=uroce,ip=10.0.0.1/24,gateway=10.0.0.2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->devices[0].own_host);
  EXPECT_EQ(config->devices[0].routes.size(), 1u);
}

}  // namespace
}  // namespace uroce::nic
