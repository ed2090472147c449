// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <unordered_map>

namespace uroce::datapath {
namespace {

TEST(KeyTableTest, FindsWhatIsPublishedAndNothingElse) {
  KeyTable table(4);
  MemoryRegion region{.key = 0x1234'5601};
  EXPECT_EQ(table.Find(region.key), nullptr);
  ASSERT_TRUE(table.Publish(&region));
  EXPECT_EQ(table.Find(region.key), &region);
  EXPECT_EQ(table.Find(region.key + 1), nullptr) << "another variant of the same index";
  table.Unpublish(&region);
  EXPECT_EQ(table.Find(region.key), nullptr);
}

TEST(KeyTableTest, RefusesATakenKeyAndAFullTable) {
  KeyTable table(2);
  MemoryRegion first{.key = 1};
  MemoryRegion same{.key = 1};
  MemoryRegion second{.key = 2};
  MemoryRegion third{.key = 3};
  EXPECT_TRUE(table.Publish(&first));
  EXPECT_FALSE(table.Publish(&same));
  EXPECT_TRUE(table.Publish(&second));
  EXPECT_FALSE(table.Publish(&third));
  table.Unpublish(&first);
  EXPECT_TRUE(table.Publish(&third));
  EXPECT_EQ(table.Find(2), &second);
}

TEST(KeyTableTest, UnpublishOfAStrangerChangesNothing) {
  KeyTable table(2);
  MemoryRegion present{.key = 1};
  MemoryRegion absent{.key = 1};
  ASSERT_TRUE(table.Publish(&present));
  table.Unpublish(&absent);
  EXPECT_EQ(table.Find(1), &present);
}

TEST(KeyTableTest, ARegionIsReplacedUnderItsKey) {
  KeyTable table(2);
  MemoryRegion old{.key = 1};
  MemoryRegion other{.key = 2};
  MemoryRegion next{.key = 1};
  ASSERT_TRUE(table.Publish(&old));
  ASSERT_TRUE(table.Publish(&other));
  table.Replace(&old, &next);
  EXPECT_EQ(table.Find(1), &next);
  EXPECT_EQ(table.Find(2), &other);
  table.Replace(&old, &other);
  EXPECT_EQ(table.Find(1), &next) << "what is not published replaces nothing";
  table.Unpublish(&next);
  EXPECT_EQ(table.Find(1), nullptr);
}

TEST(KeyTableTest, KeepsItsKeysThroughChurn) {
  constexpr uint32_t kCapacity = 64;
  KeyTable table(kCapacity);
  std::mt19937 random(3);
  std::unordered_map<uint32_t, std::unique_ptr<MemoryRegion>> present;
  for (int step = 0; step < 100'000; ++step) {
    const uint32_t key = static_cast<uint32_t>(random() % 200) * 0x0100'0193u;
    const auto found = present.find(key);
    if (found != present.end()) {
      table.Unpublish(found->second.get());
      present.erase(found);
    } else if (present.size() < kCapacity) {
      auto region = std::make_unique<MemoryRegion>(MemoryRegion{.key = key});
      ASSERT_TRUE(table.Publish(region.get()));
      present.emplace(key, std::move(region));
    }
    const uint32_t probe = static_cast<uint32_t>(random() % 200) * 0x0100'0193u;
    const auto expected = present.find(probe);
    ASSERT_EQ(table.Find(probe), expected == present.end() ? nullptr : expected->second.get());
  }
}

}  // namespace
}  // namespace uroce::datapath
