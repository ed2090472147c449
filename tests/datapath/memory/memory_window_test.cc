// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"
#include "tests/datapath/memory/test_domains.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace uroce::datapath {
namespace {

using Type = MemoryWindow::Type;
using ChangeResult = MemoryWindow::ChangeResult;

constexpr uint32_t kKey = 0x1234'56fe;

WindowBinding Binding(uint64_t addr) {
  return {.addr = addr, .length_bytes = addr * 2, .region_key = 0x100, .access = 2, .qpn = 5};
}

class MemoryWindowTest : public testing::Test {
 protected:
  ChangeResult Bind(MemoryWindow& window, uint64_t addr, uint8_t variant) {
    return window.Bind(Binding(addr), variant, former_);
  }
  std::optional<WindowBinding> former_;
  MemoryWindow one_{Type::kType1, kPd, kKey};
  MemoryWindow two_{Type::kType2, kPd, kKey};
};

// [8.window.unbound]
TEST_F(MemoryWindowTest, GrantsNothingBeforeItIsBound) {
  EXPECT_EQ(one_.key(), kKey);
  EXPECT_FALSE(one_.Read(kKey));
  EXPECT_FALSE(two_.Read());
}

// [8.window.key]
TEST_F(MemoryWindowTest, IsBoundUnderTheKeyOfTheWorkAlone) {
  ASSERT_EQ(Bind(two_, 64, 0xff), ChangeResult::kChanged);
  EXPECT_FALSE(former_);
  EXPECT_EQ(two_.key(), 0x1234'56ffu);
  EXPECT_FALSE(two_.Read(kKey));
  const std::optional<WindowBinding> binding = two_.Read(0x1234'56ff);
  ASSERT_TRUE(binding);
  EXPECT_EQ(binding->addr, 64u);
  EXPECT_EQ(binding->length_bytes, 128u);
}

// [8.window.type1 8.window.type2]
TEST_F(MemoryWindowTest, OnlyType1IsBoundAgainWhileItIsBound) {
  ASSERT_EQ(Bind(one_, 64, 1), ChangeResult::kChanged);
  ASSERT_EQ(Bind(one_, 128, 2), ChangeResult::kChanged);
  ASSERT_TRUE(former_);
  EXPECT_EQ(former_->addr, 64u);
  ASSERT_EQ(Bind(two_, 64, 1), ChangeResult::kChanged);
  EXPECT_EQ(Bind(two_, 128, 2), ChangeResult::kRefused);
  EXPECT_EQ(two_.Read()->addr, 64u);
}

// [8.window.type1 8.window.type2]
TEST_F(MemoryWindowTest, OnlyType1IsUnbound) {
  ASSERT_EQ(Bind(one_, 64, 1), ChangeResult::kChanged);
  ASSERT_EQ(Bind(two_, 64, 1), ChangeResult::kChanged);
  EXPECT_EQ(one_.Unbind(2, former_), ChangeResult::kChanged);
  EXPECT_EQ(former_->addr, 64u);
  EXPECT_FALSE(one_.Read());
  EXPECT_EQ(two_.Unbind(2, former_), ChangeResult::kRefused);
}

// [8.window.invalidate]
TEST_F(MemoryWindowTest, OnlyType2IsInvalidatedByTheKeyThatItHas) {
  ASSERT_EQ(Bind(one_, 64, 1), ChangeResult::kChanged);
  EXPECT_EQ(one_.Invalidate(one_.key(), former_), ChangeResult::kRefused);
  EXPECT_EQ(two_.Invalidate(two_.key(), former_), ChangeResult::kRefused) << "it is not bound";
  ASSERT_EQ(Bind(two_, 64, 1), ChangeResult::kChanged);
  EXPECT_EQ(two_.Invalidate(kKey, former_), ChangeResult::kRefused) << "another variant";
  EXPECT_EQ(two_.Invalidate(two_.key(), former_), ChangeResult::kChanged);
  EXPECT_EQ(former_->addr, 64u);
  EXPECT_FALSE(two_.Read());
  EXPECT_EQ(Bind(two_, 128, 1), ChangeResult::kChanged) << "free again";
}

// [8.window.whole]
TEST_F(MemoryWindowTest, AReaderBesideChangesSeesOneBindingWholeOrNone) {
  // Long enough for both to be at it at once, on a machine with other work too.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    std::optional<WindowBinding> former;
    for (uint64_t i = 1; i % 1024 != 0 || std::chrono::steady_clock::now() < end; ++i) {
      EXPECT_EQ(one_.Bind(Binding(i), static_cast<uint8_t>(i), former), ChangeResult::kChanged);
    }
    done = true;
  });
  uint64_t mixed = 0;
  while (!done) {
    const uint32_t key = one_.key();
    const std::optional<WindowBinding> seen = one_.Read(key);
    if (!seen) continue;
    mixed += seen->length_bytes != seen->addr * 2 || (seen->addr & 0xff) != (key & 0xff);
  }
  writer.join();
  EXPECT_EQ(mixed, 0u);
}

// [8.window.whole]
TEST_F(MemoryWindowTest, OneOfTwoWhoChangeItAtOnceWins) {
  // Long enough for both to be at it at once, on a machine with other work too.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  std::atomic<int> changed{0};
  const auto invalidate_and_bind = [&] {
    std::optional<WindowBinding> former;
    while (std::chrono::steady_clock::now() < end) {
      const bool bound = two_.Bind(Binding(1), 3, former) == ChangeResult::kChanged;
      if (bound) ++changed;
      const bool ended =
          two_.Invalidate((kKey & ~kKeyVariant) | 3, former) == ChangeResult::kChanged;
      if (ended) --changed;
    }
  };
  std::thread other(invalidate_and_bind);
  invalidate_and_bind();
  other.join();
  EXPECT_EQ(changed, two_.Read() ? 1 : 0) << "bindings and ends take turns";
}

}  // namespace
}  // namespace uroce::datapath
