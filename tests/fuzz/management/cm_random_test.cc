// SPDX-License-Identifier: Apache-2.0
// Checks the property of the MAD fuzzer with random bytes, and with messages and random changes,
// from fixed seeds: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/fuzz/management/capabilities_check.h"
#include "tests/fuzz/management/cm_check.h"
#include "tests/wire/cm/values.h"

namespace uroce::wire {
namespace {

TEST(CmRandomTest, HoldsForRandomBytesBehindAHeaderOfTheClass) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> mad(random() % 8 == 0 ? random() % 300 : kMadBytes);
    for (uint8_t& byte : mad) byte = static_cast<uint8_t>(random());
    if (mad.size() > 24) {
      mad[0] = 1;
      mad[1] = 7;
      mad[2] = 2;
      mad[3] = 3;
      mad[16] = 0;
      mad[17] = static_cast<uint8_t>(0x10 + random() % 12);
    }
    ASSERT_TRUE(CmHolds(mad)) << "round " << round;
  }
}

TEST(CmRandomTest, HoldsForMessagesWithRandomChanges) {
  CmValues values(2);
  for (int round = 0; round < 20'000; ++round) {
    auto mad = EncodeCm(values.Message(round % kCmAttributeCount));
    for (uint64_t changes = values.Bits(2); changes != 0; --changes) {
      mad[values.Bits(8)] = static_cast<uint8_t>(values.Bits(8));
    }
    ASSERT_TRUE(CmHolds(mad)) << "round " << round;
  }
}

TEST(CapabilitiesRandomTest, HoldsForMadsWithRandomChanges) {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    auto mad = EncodeCapabilities(
        {.method = round % 2 == 0 ? MadMethod::kGet : MadMethod::kGetResponse,
         .status = static_cast<uint16_t>(round % 3 == 0 ? random() : 0),
         .transaction_id = random(),
         .capabilities = {.features = static_cast<uint32_t>(random()), .instance = random()}});
    for (uint32_t changes = random() % 4; changes != 0; --changes) {
      mad[random() % 64] = static_cast<uint8_t>(random());
    }
    ASSERT_TRUE(CapabilitiesHold(mad)) << "round " << round;
  }
}

}  // namespace
}  // namespace uroce::wire
