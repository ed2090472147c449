// SPDX-License-Identifier: Apache-2.0
// Checks the property of the settings' fuzzer with good settings and random changes, from a fixed
// seed: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/config_check.h"

namespace uroce::nic {
namespace {

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
  for (int round = 0; round < 5'000; ++round) {
    std::string text = kGoodConfigs[random() % std::size(kGoodConfigs)];
    for (auto changes = random() % 5; changes != 0; --changes) text = Change(text, random);
    ASSERT_TRUE(ConfigHolds(text)) << "round " << round << ":\n" << text;
  }
}

}  // namespace
}  // namespace uroce::nic
