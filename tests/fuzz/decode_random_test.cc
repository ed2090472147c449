// SPDX-License-Identifier: Apache-2.0
// Checks the property of the decode fuzzer with random bytes, and with golden frames and random
// changes, from fixed seeds: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/decode_check.h"
#include "tests/golden/capture_file.h"

namespace uroce::wire {
namespace {

using Frame = std::vector<uint8_t>;

/// Checks in a block of the frame's exact size, where sanitizers notice a read beyond its end.
bool Holds(const Frame& frame) {
  const Frame exact(frame);
  return DecodeHolds(exact);
}

TEST(DecodeRandomTest, HoldsForRandomBytesBehindTheTypesOfRoce) {
  std::mt19937 random(1);
  for (int round = 0; round < 50'000; ++round) {
    Frame frame(random() % 200);
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
    if (frame.size() > 40) {
      const bool ipv6 = random() % 2 == 0;
      frame[12] = ipv6 ? 0x86 : 0x08;
      frame[13] = ipv6 ? 0xdd : 0x00;
      frame[14] = ipv6 ? 0x60 : 0x45;
    }
    ASSERT_TRUE(Holds(frame)) << "round " << round;
  }
}

void Mutate(Frame& frame, std::mt19937& random) {
  if (frame.empty()) return;
  const size_t at = random() % frame.size();
  switch (random() % 4) {
    case 0:
      frame[at] = static_cast<uint8_t>(random());
      break;
    case 1:
      frame[at] ^= static_cast<uint8_t>(1 << random() % 8);
      break;
    case 2:
      frame.resize(at);
      break;
    default:
      frame.insert(frame.begin() + static_cast<ptrdiff_t>(at), random() % 8, 0);
      break;
  }
}

/// A wrong IPv4 checksum would hide most changes, so it is corrected in three of four frames.
void FixChecksum(Frame& frame, std::mt19937& random) {
  const bool ipv4 = frame.size() >= 34 && frame[12] == 0x08 && frame[13] == 0x00;
  if (!ipv4 || random() % 4 == 0) return;
  frame[24] = frame[25] = 0;
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  frame[24] = static_cast<uint8_t>(~sum >> 8);
  frame[25] = static_cast<uint8_t>(~sum);
}

TEST(DecodeRandomTest, HoldsForGoldenFramesWithRandomChanges) {
  std::mt19937 random(2);
  for (const char* name : {"linux-rxe-1", "linux-rxe-2", "linux-rxe-3"}) {
    for (const Frame& golden : ReadCapture(std::string(UROCE_GOLDEN_DIR) + "/" + name + ".pcap")) {
      for (int round = 0; round < 100; ++round) {
        Frame frame = golden;
        for (uint32_t changes = random() % 4 + 1; changes > 0; --changes) Mutate(frame, random);
        FixChecksum(frame, random);
        ASSERT_TRUE(Holds(frame)) << name << " round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::wire
