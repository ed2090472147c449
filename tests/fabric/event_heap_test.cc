// SPDX-License-Identifier: Apache-2.0
#include "pipeline/fabric/fabric.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace uroce::fabric {
namespace {

TEST(EventHeapTest, OfOneTimeTheLowestComesFirst) {
  EventHeap heap;
  heap.Resize(4);
  for (const uint32_t event : {2u, 0u, 3u, 1u}) heap.Set(event, Nanos(5));
  for (uint32_t event = 0; event < 4; ++event) {
    EXPECT_EQ(heap.first(), event);
    heap.Remove(event);
  }
  EXPECT_EQ(heap.next(), kNever);
}

// Against a set of pairs, which is ordered alike.
TEST(EventHeapTest, AgreesWithASet) {
  constexpr uint32_t kEvents = 40;
  std::mt19937_64 random(1);
  EventHeap heap;
  heap.Resize(kEvents);
  std::set<std::pair<int64_t, uint32_t>> set;
  const auto forget = [&](uint32_t event) {
    std::erase_if(set, [&](const auto& each) { return each.second == event; });
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto event = static_cast<uint32_t>(random() % kEvents);
    const auto time = static_cast<int64_t>(random() % 64);
    switch (random() % 3) {
      case 0:
        if (heap.empty()) break;
        ASSERT_EQ(heap.first(), set.begin()->second) << step;
        heap.Remove(heap.first());
        set.erase(set.begin());
        break;
      case 1:
        heap.Remove(event);
        forget(event);
        break;
      default:
        heap.Set(event, Nanos(time));
        forget(event);
        set.emplace(time, event);
    }
    ASSERT_EQ(heap.next().count(), set.empty() ? kNever.count() : set.begin()->first) << step;
  }
}

}  // namespace
}  // namespace uroce::fabric
