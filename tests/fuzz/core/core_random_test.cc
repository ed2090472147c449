// SPDX-License-Identifier: Apache-2.0
// Checks the property of the core's fuzzers with golden conversations and random changes, from
// fixed seeds: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/fuzz/core/core_script.h"
#include "tests/golden/conversation.h"
#include "tests/sim/random.h"

namespace uroce::sim {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kRounds = 200;

Bytes BytesOf(const std::vector<CoreRecord>& script) {
  Bytes bytes(script.size() * sizeof(CoreRecord));
  std::memcpy(bytes.data(), script.data(), bytes.size());
  return bytes;
}

/// Changes bytes, and duplicates, swaps or removes whole records.
void Change(Bytes& bytes, Random& random) {
  constexpr auto kSize = static_cast<ptrdiff_t>(sizeof(CoreRecord));
  const auto records = static_cast<uint32_t>(bytes.size() / sizeof(CoreRecord));
  const auto at = bytes.begin() + random.Below(records) * kSize;
  const Bytes record(at, at + kSize);
  switch (random.Below(4)) {
    case 0:
      bytes.insert(at, record.begin(), record.end());
      break;
    case 1:
      std::swap_ranges(at, at + kSize, bytes.begin() + random.Below(records) * kSize);
      break;
    case 2:
      if (records > 2) bytes.erase(at, at + kSize);
      break;
    default:
      bytes[random.Below(static_cast<uint32_t>(bytes.size()))] =
          static_cast<uint8_t>(random.Next());
      break;
  }
}

template <typename QueuePair>
void HoldsWithChanges(const std::vector<CoreRecord>& script, const std::string& name) {
  Random random(1);
  for (int round = 0; round < kRounds; ++round) {
    Bytes bytes = BytesOf(script);
    for (uint32_t changes = random.Below(6); changes != 0; --changes) Change(bytes, random);
    ASSERT_TRUE(CoreScript<QueuePair>::Holds(bytes)) << name << " round " << round;
  }
}

TEST(CoreRandomTest, ReliableConnectionsHold) {
  for (const char* capture : kGoldenCaptures) {
    const Conversations conversations(UROCE_GOLDEN_DIR, capture);
    for (const Conversation& conversation : conversations.all()) {
      HoldsWithChanges<transport::RcQueuePair>(ScriptOfRequester(conversation), conversation.name);
      HoldsWithChanges<transport::RcQueuePair>(ScriptOfReceiver(conversation), conversation.name);
    }
  }
}

template <typename QueuePair>
void ReceiversHold(wire::Service service) {
  for (const char* capture : kGoldenCaptures) {
    const Conversations conversations(UROCE_GOLDEN_DIR, capture, service);
    for (const Conversation& conversation : conversations.all()) {
      HoldsWithChanges<QueuePair>(ScriptOfReceiver(conversation), conversation.name);
    }
  }
}

TEST(CoreRandomTest, UnreliableConnectionsHold) {
  ReceiversHold<transport::UcQueuePair>(wire::Service::kUc);
}

TEST(CoreRandomTest, DatagramsHold) { ReceiversHold<transport::UdQueuePair>(wire::Service::kUd); }

}  // namespace
}  // namespace uroce::sim
