// SPDX-License-Identifier: Apache-2.0
// Which ports may come and go while the daemon runs, and what one clear line refuses.
#include "nic/settings/port_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "nic/settings/config_file.h"

namespace uroce::nic {
namespace {

Config Present() {
  const auto settings = ParseConfigFile(R"(
[[port]]
name = "p0"
udp = "192.0.2.1"
[[port]]
name = "p1"
dev = "net_tap0;iface=t0"
ip = "192.0.2.9/24"
[[wire]]
a = "10.0.0.1/24"
b = "10.0.0.2/24"
[[switch]]
name = "sw0"
ip = "10.1.0.1/24"
ports = 2
)",
                                        "uroced.toml");
  return MakeConfig(*settings, "/run/s").value();
}

const DeviceConfig& Nic(const Config& config, const std::string& name) {
  for (const DeviceConfig& device : config.devices) {
    if (device.name == name) return device;
  }
  ADD_FAILURE() << name;
  return config.devices.front();
}

TEST(PortAdditionTest, PortsOfOurDriversAreRead) {
  for (const char* const place : {"udp=192.0.2.7", "iface=lo",
                                  "dev=net_memif0;role=client;socket=/run/m.sock,ip=10.9.0.1/24"}) {
    const auto addition =
        ParsePortAddition("port", std::string("name=n,rate=5G,") + place, Present());
    ASSERT_TRUE(addition.ok()) << addition.status();
    ASSERT_EQ(addition->nics.size(), 1u);
    const DeviceConfig& nic = addition->nics.front();
    EXPECT_EQ(nic.name, "n");
    EXPECT_EQ(nic.rate_bps, 5'000'000'000u);
    EXPECT_EQ(addition->setting.key, "port");
    EXPECT_TRUE(CheckRemovable(nic).ok());
  }
}

TEST(PortAdditionTest, AWireHasTwoNicsAndItsOwnNumber) {
  const auto addition =
      ParsePortAddition("wire", "left=10.4.0.1/24,right=10.4.0.2/24,left.rate=5G", Present());
  ASSERT_TRUE(addition.ok()) << addition.status();
  EXPECT_EQ(addition->setting.key, "wire");
  ASSERT_EQ(addition->nics.size(), 2u);
  const DeviceConfig& left = addition->nics[0];
  const DeviceConfig& right = addition->nics[1];
  EXPECT_EQ(left.name, "left");
  EXPECT_EQ(right.name, "right");
  EXPECT_EQ(left.rate_bps, 5'000'000'000u);
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_NE(left.kind, Nic(Present(), "a").kind);
  EXPECT_FALSE(left.wire_interface);
  EXPECT_TRUE(CheckRemovable(left).ok());
}

TEST(PortAdditionTest, AddedWiresHaveKernelInterfacesWhereTheFirstOnesHave) {
  Config present = Present();
  present.wire_interfaces = true;
  const auto addition = ParsePortAddition("wire", "l=10.4.0.1/24,r=10.4.0.2/24", present);
  ASSERT_TRUE(addition.ok()) << addition.status();
  for (const DeviceConfig& nic : addition->nics) EXPECT_TRUE(nic.wire_interface) << nic.name;
}

TEST(PortAdditionTest, OneLineSaysWhatIsWrongOfAWire) {
  for (const auto& [text, said] : {std::pair{"l=10.4.0.1/24", "a wire has two ends, not 1 (l)"},
                                   {"a=10.4.0.1/24,r=10.4.0.2/24", "\"a\" is used twice"},
                                   {"l=10.0.0.1/24,r=10.4.0.2/24", "belongs to a and to l"},
                                   {"l=10.4.0.1/24,r=nowhere", "nowhere"}}) {
    const auto addition = ParsePortAddition("wire", text, Present());
    ASSERT_FALSE(addition.ok()) << text;
    EXPECT_NE(addition.status().message().find(said), absl::string_view::npos) << addition.status();
  }
}

TEST(PortAdditionTest, OneLineNamesTheKey) {
  const struct {
    const char* text;
    const char* said;
  } refused[] = {
      {"udp=192.0.2.7", "name=... is missing"},
      {"name=n", "iface=..., udp=... or dev=... is missing"},
      {"name=n,udp=192.0.2.7,colour=red", "unknown key \"colour\""},
      {"name=p0,udp=192.0.2.7", "p0"},
      {"name=a,udp=192.0.2.7", "a"},
      {"name=n,udp=192.0.2.1", "belongs to p0 and to n"},
      {"name=n,udp=192.0.2.7,rate=fast", "rate"},
      {"name=n,dev=net_tap0;iface=t1,ip=10.9.0.1/24", "name=n: dev=net_tap0"},
      {"name=n,dev=0000:3b:00.0,ip=10.9.0.1/24", "name=n: dev=0000:3b:00.0"},
      {"name=n,dev=net_memif0;role=client;socket=/s,exception=t1", "name=n: exception=t1"},
      {"name=n,udp", "is not of the form key=value"},
      {"name=n,switch=sw7,ip=10.1.0.9/24", "switch \"sw7\": there is no such switch"},
      {"name=n,switch=sw0", "name=n: ip=... is missing"},
      {"switch=sw0,ip=10.1.0.9/24", "name=... is missing"},
      {"name=n,switch=sw0,ip=10.1.0.2/24", "belongs to uroce1 and to n"},
      {"name=n,switch=sw0,ip=10.1.0.9/24,mtu=1500", "\"mtu\" is no key of a NIC at a switch"},
      {"name=n,switch=sw0,ip=10.1.0.9/24,iface=lo", "\"iface\" is no key of a NIC at a switch"},
      {"", "name=... is missing"},
  };
  for (const auto& [text, said] : refused) {
    const auto addition = ParsePortAddition("port", text, Present());
    ASSERT_FALSE(addition.ok()) << text;
    const std::string message(addition.status().message());
    EXPECT_NE(message.find(said), std::string::npos) << text << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(PortAdditionTest, NoMoreThanThereArePlaces) {
  Config present = Present();
  while (present.devices.size() < UROCE_MAX_DEVICES) {
    DeviceConfig another;
    another.name = "another" + std::to_string(present.devices.size());
    present.devices.push_back(another);
  }
  const auto addition = ParsePortAddition("port", "name=n,udp=192.0.2.7", present);
  ASSERT_FALSE(addition.ok());
  EXPECT_NE(addition.status().message().find("more than 64 devices"), absl::string_view::npos);
}

TEST(PortAdditionTest, OthersStayAsLongAsTheDaemon) {
  const Config present = Present();
  EXPECT_TRUE(CheckRemovable(Nic(present, "p0")).ok());
  const absl::Status status = CheckRemovable(Nic(present, "p1"));
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message().find("p1: it is driven by DPDK"), 0u) << status;
}

TEST(PortAdditionTest, ANicComesToAPortOfASwitchThatIsFree) {
  Config present = Present();
  const char* const text = "name=n,switch=sw0,ip=10.1.0.9/24,rate=5G,selective-repeat=off";
  const auto full = ParsePortAddition("port", text, present);
  EXPECT_EQ(full.status(),
            absl::ResourceExhaustedError("port add: name=n: switch=sw0: its 2 ports have NICs; "
                                         "uroce port remove frees one"));
  EXPECT_TRUE(CheckRemovable(Nic(present, "uroce1")).ok());
  std::erase_if(present.devices, [](const DeviceConfig& each) { return each.name == "uroce0"; });
  const auto addition = ParsePortAddition("port", text, present);
  ASSERT_TRUE(addition.ok()) << addition.status();
  ASSERT_EQ(addition->nics.size(), 1u);
  const DeviceConfig& nic = addition->nics.front();
  EXPECT_EQ(nic.kind, PortKind(SwitchPort{0}));
  EXPECT_EQ(nic.mtu_bytes, Nic(present, "uroce1").mtu_bytes);
  EXPECT_EQ(nic.rate_bps, 5'000'000'000u);
  EXPECT_FALSE(nic.selective_repeat);
  EXPECT_TRUE(CheckRemovable(nic).ok());
}

}  // namespace
}  // namespace uroce::nic
