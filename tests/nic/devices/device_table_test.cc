// SPDX-License-Identifier: Apache-2.0
// Indices of devices that come and go.
#include "nic/devices/device_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace uroce::nic {
namespace {

struct FakeDevice {
  uint32_t number = 0;
  uint32_t index() const { return number; }
};
using Table = DeviceTable<FakeDevice>;

class DeviceTableTest : public ::testing::Test {
 protected:
  uint32_t Add() {
    const uint32_t index = table_.NextIndices(1).at(0);
    table_.Add(std::make_shared<FakeDevice>(FakeDevice{index}));
    return index;
  }
  void Remove(uint32_t index) { table_.Remove(*table_.At(index)); }
  std::vector<uint32_t> Present() const {
    std::vector<uint32_t> indices;
    for (const auto& device : table_.present()) indices.push_back(device->index());
    return indices;
  }

  Table table_;
};

TEST_F(DeviceTableTest, TheFirstOnesCountFromZero) {
  for (uint32_t index = 0; index < Table::kSlots; ++index) EXPECT_EQ(Add(), index);
  EXPECT_TRUE(table_.NextIndices(1).empty());
  EXPECT_EQ(table_.At(63)->index(), 63u);
  EXPECT_EQ(table_.At(64), nullptr);
}

TEST_F(DeviceTableTest, AnIndexIsNotGivenAgain) {
  Add();
  for (uint32_t expected = 1; expected < 1000; ++expected) {
    // Slot 0 is taken all the time.
    const uint32_t index = Add();
    EXPECT_NE(index % Table::kSlots, 0u);
    EXPECT_EQ(index, expected + (expected - 1) / (Table::kSlots - 1));
    Remove(index);
    EXPECT_EQ(table_.At(index), nullptr);
    EXPECT_EQ(table_.TakeReleased().size(), 1u);
  }
}

TEST_F(DeviceTableTest, IndicesEndAtSixteenBits) {
  Add();
  uint32_t last = 0;
  for (uint32_t i = 0; i < Table::kIndices; ++i) {
    last = Add();
    EXPECT_LT(last, Table::kIndices);
    Remove(last);
    table_.TakeReleased();
  }
  EXPECT_EQ(Present(), std::vector<uint32_t>{0});
}

TEST_F(DeviceTableTest, ARemovedOneKeepsItsSlotWhileItIsHeld) {
  for (uint32_t i = 0; i < Table::kSlots; ++i) Add();
  std::shared_ptr<FakeDevice> held = table_.present()[5];
  Remove(5);
  EXPECT_EQ(table_.At(5), nullptr);
  EXPECT_EQ(table_.present().size(), Table::kSlots - 1);
  EXPECT_TRUE(table_.TakeReleased().empty());
  EXPECT_EQ(table_.removed().size(), 1u);
  EXPECT_TRUE(table_.NextIndices(1).empty());
  held.reset();
  EXPECT_EQ(table_.TakeReleased().size(), 1u);
  EXPECT_TRUE(table_.removed().empty());
  EXPECT_EQ(table_.NextIndices(2), std::vector<uint32_t>{Table::kSlots + 5});
}

TEST_F(DeviceTableTest, IndicesForSeveralAreThoseThatTheyGet) {
  for (int i = 0; i < 4; ++i) Add();
  const std::vector<uint32_t> indices = table_.NextIndices(3);
  EXPECT_EQ(indices, (std::vector<uint32_t>{4, 5, 6}));
  for (const uint32_t index : indices) EXPECT_EQ(Add(), index);
}

TEST_F(DeviceTableTest, TheOrderIsThatOfComing) {
  for (int i = 0; i < 4; ++i) Add();
  Remove(1);
  table_.TakeReleased();
  EXPECT_EQ(Add(), 4u);
  EXPECT_EQ(Present(), (std::vector<uint32_t>{0, 2, 3, 4}));
}

}  // namespace
}  // namespace uroce::nic
