// SPDX-License-Identifier: Apache-2.0
// Device arguments as users write them.
#include "drivers/dpdk/device_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "pipeline/port/port.h"

namespace uroce::drivers {
namespace {

TEST(DeviceArgumentsTest, AfPacketGetsRingsThatCarryRoceFrames) {
  const auto arguments = ParseDeviceArguments("net_af_packet0;iface=veth0");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->driver, "net_af_packet");
  EXPECT_EQ(arguments->Interface(), "veth0");
  EXPECT_EQ(arguments->ToDpdk(),
            "net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=2048,qpairs=1,"
            "qdisc_bypass=0");
  EXPECT_EQ(RequiredFrameBytes(*arguments, 0), 8192u);
}

TEST(DeviceArgumentsTest, WhatTheUserSaysIsKept) {
  const auto arguments = ParseDeviceArguments("net_af_packet3;iface=v;framesz=16384;framecnt=64");
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->ToDpdk(),
            "net_af_packet3,iface=v,framesz=16384,framecnt=64,blocksz=65536,qpairs=1,"
            "qdisc_bypass=0");
  EXPECT_EQ(RequiredFrameBytes(*arguments, 0), 16384u);
}

TEST(DeviceArgumentsTest, OtherDriversAndPciAddressesPassThrough) {
  const auto unknown = ParseDeviceArguments("net_null0;size=64;copy=1");
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->ToDpdk(), "net_null0,size=64,copy=1");
  EXPECT_EQ(unknown->Interface(), "");
  EXPECT_GE(RequiredFrameBytes(*unknown, 0), 4200u);
  const auto pci = ParseDeviceArguments("0000:3b:00.0");
  ASSERT_TRUE(pci.ok());
  EXPECT_TRUE(pci->IsPci());
}

TEST(DeviceArgumentsTest, NonsenseIsOneClearError) {
  for (const char* text :
       {"", "veth0", "net_af_packet0", "net_memif0;;role=client", "net_ring;=3"}) {
    const auto arguments = ParseDeviceArguments(text);
    ASSERT_FALSE(arguments.ok()) << text;
    const std::string device = std::string(text).substr(0, std::string(text).find(';'));
    EXPECT_NE(arguments.status().message().find("dev \"" + device + "\": "), std::string::npos)
        << arguments.status();
  }
}

TEST(DeviceArgumentsTest, APciAddressMayLackItsDomain) {
  const auto pci = ParseDeviceArguments("3B:00.0");
  ASSERT_TRUE(pci.ok());
  EXPECT_EQ(pci->name, "0000:3b:00.0");
}

TEST(DeviceArgumentsTest, AnErrorNamesTheKeyAndWhatWouldBeRight) {
  const std::pair<const char*, const char*> cases[] = {
      {"net_vhost0;iface=/run/x;colour=red", "unknown key \"colour\"; net_vhost takes iface"},
      {"net_vhost0;iface=/run/x;iface=/run/y", "\"iface\" is given twice"},
      {"net_vhost0", "iface=... is missing"},
      {"net_virtio_user0;queues=2", "path=... is missing"},
      {"net_pcap0", "rx_pcap=..."},
      {"net_af_xdp0;iface=", "iface= has no value"},
      {"net_vhost0;iface=/run/x;mac=red", "mac=red is no unicast address"},
      {"net_vhost0;iface=/run/x;mac=01:00:00:00:00:01", "no unicast address"},
      {"net_af_packet0;iface=eth0;mac=02:00:00:00:00:01", "address of the interface eth0"},
  };
  for (const auto& [text, hint] : cases) {
    const auto arguments = ParseDeviceArguments(text);
    ASSERT_FALSE(arguments.ok()) << text;
    EXPECT_NE(arguments.status().message().find(hint), std::string::npos) << arguments.status();
  }
}

TEST(DeviceArgumentsTest, TheMacIsThePortsAndNotTheDrivers) {
  const auto arguments = ParseDeviceArguments("net_vhost0;iface=/run/x;mac=02:00:00:00:00:0a");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->mac, (Mac{2, 0, 0, 0, 0, 10}));
  EXPECT_EQ(arguments->ToDpdk(), "net_vhost0,iface=/run/x");
}

TEST(DeviceArgumentsTest, FramesHoldTheMtuThatWasAskedFor) {
  const auto vhost = ParseDeviceArguments("net_vhost0;iface=/run/x");
  ASSERT_TRUE(vhost.ok());
  EXPECT_GE(RequiredFrameBytes(*vhost, 9000), 9018u);
  const auto pci = ParseDeviceArguments("0000:3b:00.0");
  ASSERT_TRUE(pci.ok());
  EXPECT_LT(RequiredFrameBytes(*pci, 1500), 8192u);
  EXPECT_GE(RequiredFrameBytes(*pci, 4200), 8192u);
}

TEST(DriverRulesTest, WhatIsFilledInIsKnownToTheDriver) {
  for (const char* driver :
       {"net_af_packet", "net_af_xdp", "net_tap", "net_pcap", "net_vhost", "net_virtio_user"}) {
    const DriverRules& rules = RulesOf(driver);
    ASSERT_EQ(rules.driver, driver);
    const auto known = [&](absl::string_view key) {
      return std::ranges::find(rules.keys, key) != rules.keys.end();
    };
    for (const auto& [key, value] : rules.defaults) EXPECT_TRUE(known(key)) << driver << key;
    for (const auto key : rules.required) EXPECT_TRUE(known(key)) << driver << key;
    for (const auto key : rules.interface_keys) EXPECT_TRUE(known(key)) << driver << key;
    EXPECT_TRUE(rules.queues_key.empty() || known(rules.queues_key)) << driver;
  }
}

TEST(StableMacTest, TheSameDeviceHasTheSameAddressAndOthersOthers) {
  const auto mac_of = [](const char* text) {
    return StableMac(ParseDeviceArguments(text)->Identity());
  };
  const Mac first = mac_of("net_vhost0;iface=/run/a");
  EXPECT_EQ(first, mac_of("net_vhost0;iface=/run/a;queues=2"));
  EXPECT_NE(first, mac_of("net_vhost0;iface=/run/b"));
  EXPECT_NE(first, mac_of("net_virtio_user0;path=/run/a"));
  EXPECT_EQ(first[0] & 3, 2) << "locally administered, for one";
}

}  // namespace
}  // namespace uroce::drivers
