// SPDX-License-Identifier: Apache-2.0
// Every CRC kernel that this machine runs against bit-by-bit division.
#include "pipeline/wire/crc/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "pipeline/wire/icrc.h"

namespace uroce::wire {
namespace {

/// The definition: one bit a step.
uint32_t Reference(uint32_t state, std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? 0xedb88320 : 0);
  }
  return state;
}

std::vector<uint8_t> RandomBytes(std::mt19937& random, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

class CrcKernelTest : public testing::TestWithParam<CrcKernel> {
 protected:
  const CrcKernel& kernel() const { return GetParam(); }
};

TEST_P(CrcKernelTest, CheckValueOfTheCrcCatalogue) {
  const std::string text = "123456789";
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  EXPECT_EQ(~kernel().update(0xffffffff, bytes, text.size()), 0xcbf43926u);
}

TEST_P(CrcKernelTest, NothingChangesNothing) {
  EXPECT_EQ(kernel().update(0x12345678, nullptr, 0), 0x12345678u);
  EXPECT_EQ(kernel().copy(0x12345678, nullptr, nullptr, 0), 0x12345678u);
}

TEST_P(CrcKernelTest, EveryLengthUpTo700AtSomeAlignmentEqualsTheDefinition) {
  std::mt19937 random(1);
  const std::vector<uint8_t> bytes = RandomBytes(random, 1024);
  for (size_t length = 0; length <= 700; ++length) {
    const size_t offset = random() % 64;
    const auto state = static_cast<uint32_t>(random());
    const std::span<const uint8_t> input(bytes.data() + offset, length);
    ASSERT_EQ(kernel().update(state, input.data(), length), Reference(state, input))
        << "length " << length << " offset " << offset;
  }
}

TEST_P(CrcKernelTest, CopyWritesExactlyTheBytesAndYieldsTheSameState) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const size_t length = round < 800 ? static_cast<size_t>(round) : random() % 9000;
    const size_t from = random() % 64;
    const size_t to = random() % 64;
    const auto state = static_cast<uint32_t>(random());
    const std::vector<uint8_t> source = RandomBytes(random, from + length);
    std::vector<uint8_t> destination(to + length + 64, 0xee);
    const uint32_t after =
        kernel().copy(state, destination.data() + to, source.data() + from, length);
    ASSERT_EQ(after, kPortableCrcKernel.update(state, source.data() + from, length)) << length;
    const auto first = destination.begin() + static_cast<ptrdiff_t>(to);
    const auto end = first + static_cast<ptrdiff_t>(length);
    ASSERT_TRUE(std::equal(first, end, source.begin() + static_cast<ptrdiff_t>(from))) << length;
    const auto untouched = [](uint8_t byte) { return byte == 0xee; };
    ASSERT_TRUE(std::all_of(destination.begin(), first, untouched)) << length;
    ASSERT_TRUE(std::all_of(end, destination.end(), untouched)) << length;
  }
}

TEST_P(CrcKernelTest, StatesChainOverAnyCut) {
  std::mt19937 random(3);
  const std::vector<uint8_t> bytes = RandomBytes(random, 5000);
  const uint32_t whole = kPortableCrcKernel.update(7, bytes.data(), bytes.size());
  for (int round = 0; round < 2000; ++round) {
    const size_t cut = random() % (bytes.size() + 1);
    const size_t second = cut + random() % (bytes.size() + 1 - cut);
    uint32_t state = kernel().update(7, bytes.data(), cut);
    state = kernel().update(state, bytes.data() + cut, second - cut);
    state = kernel().update(state, bytes.data() + second, bytes.size() - second);
    ASSERT_EQ(state, whole) << cut << " " << second;
  }
}

TEST_P(CrcKernelTest, MaskSetsBitsOfTheFirst64Bytes) {
  std::mt19937 random(4);
  HeaderMask mask;
  for (size_t i = 0; i < 64; ++i) mask.bytes[i] = static_cast<uint8_t>(random());
  for (size_t length = 0; length <= 400; ++length) {
    const std::vector<uint8_t> bytes = RandomBytes(random, length);
    std::vector<uint8_t> masked = bytes;
    for (size_t i = 0; i < std::min<size_t>(64, length); ++i) masked[i] |= mask.bytes[i];
    ASSERT_EQ(kernel().masked(kIcrcSeed, bytes.data(), length, mask), Reference(kIcrcSeed, masked))
        << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CrcKernelTest,
                         testing::ValuesIn(AvailableCrcKernels().begin(),
                                           AvailableCrcKernels().end()),
                         [](const auto& variant) { return std::string(variant.param.name); });

TEST(CrcKernelChoiceTest, TheBestAvailableKernelIsUsed) {
  EXPECT_STREQ(CrcKernelName(), AvailableCrcKernels().front().name);
  EXPECT_STREQ(AvailableCrcKernels().back().name, "portable");
}

}  // namespace
}  // namespace uroce::wire
