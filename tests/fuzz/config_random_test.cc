// SPDX-License-Identifier: Apache-2.0
// The property of the settings' fuzzer over good settings with random changes, from a fixed seed:
// what runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/config_check.h"

namespace uroce::nic {
namespace {

constexpr const char* kGood[] = {
    "workers = 1\nmax_qp = 100\n[[port]]\nname = \"uroce0\"\ndev = \"net_af_packet0;iface=eth0\"\n"
    "ip = [\"192.0.2.1/24\", \"2001:db8::1/64\", \"10.5.0.1/24 vlan 100\"]\nmtu = 4200\n",
    "[[wire]]\nuroce0 = \"10.0.0.1/24\"\nuroce1 = \"10.0.0.2/24\"\nfault = \"uroce0:drop=0.01\"\n",
    "--wire\nuroce0=10.0.0.1/24+fd00::1/64,uroce1=10.0.0.2/24\n--fault\nuroce0:drop=0.5,seed=7",
    "--port\nname=uroce0,dev=0000:3b:00.0,ip=192.0.2.1/24,gateway=192.0.2.254,"
    "route=10.9.0.0/16 via 192.0.2.7,queues=2,mtu=4200\n--max-memory-per-user=1048576\n--no-huge",
    "--port\nname=a,dev=net_tap0;iface=tap0,host=uroce,exception=tap1\n--log-level\ndebug",
    "--wire-interfaces\n--wire\na=10.0.0.1/24,b=10.0.0.2/24",
};
constexpr const char* kWords[] = {"=",   ",",          ";",  "\"",   "[",  "]",
                                  "\n",  "--",         "+",  "/",    ":",  "vlan",
                                  "via", "4294967296", "-1", "\xff", "ip", "name"};

std::string Change(std::string text, std::mt19937& random) {
  const size_t at = random() % (text.size() + 1);
  switch (random() % 5) {
    case 0:
      return text.insert(at, kWords[random() % std::size(kWords)]);
    case 1:
      return text.erase(at, random() % 12);
    case 2:
      return text.substr(0, at);
    case 3:
      return text.insert(at, text.substr(random() % (text.size() + 1), random() % 30));
    default:
      if (at < text.size()) text[at] = static_cast<char>(random());
      return text;
  }
}

TEST(ConfigRandomTest, SettingsWithRandomChangesAreTakenOrRefusedInWords) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = kGood[random() % std::size(kGood)];
    for (auto changes = random() % 5; changes != 0; --changes) text = Change(text, random);
    ASSERT_TRUE(ConfigHolds(text)) << "round " << round << ":\n" << text;
  }
}

}  // namespace
}  // namespace uroce::nic
