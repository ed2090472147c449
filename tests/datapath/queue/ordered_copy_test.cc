// SPDX-License-Identifier: Apache-2.0
// Every kernel that this machine runs: what it writes, and the order of its stores as written.
#include "pipeline/datapath/queue/payload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace uroce::datapath {
namespace {

constexpr size_t kMaxBytes = 8192;
constexpr size_t kAlignments = 64;

class OrderedCopyTest : public testing::TestWithParam<OrderedCopyKernel> {};

TEST_P(OrderedCopyTest, CopiesEveryLengthToEveryAlignmentAndNothingElse) {
  std::mt19937 random(1);
  std::vector<uint8_t> source(kMaxBytes + kAlignments);
  for (uint8_t& byte : source) byte = static_cast<uint8_t>(random() | 1);
  std::vector<uint8_t> zeros(kMaxBytes + 3 * kAlignments);
  std::vector<uint8_t> memory = zeros;
  for (size_t length = 0; length <= kMaxBytes; ++length) {
    for (size_t i = 0; i < kAlignments; ++i) {
      const size_t at = kAlignments + i;
      const uint8_t* from = source.data() + (length + i * 3) % kAlignments;
      GetParam().copy(&memory[at], from, length);
      ASSERT_EQ(memcmp(&memory[at], from, length), 0) << length << " at " << at;
      memset(&memory[at], 0, length);
      ASSERT_EQ(memcmp(memory.data(), zeros.data(), at), 0) << length << " at " << at;
      ASSERT_EQ(memcmp(&memory[at + length], zeros.data(), kAlignments), 0)
          << length << " at " << at;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<OrderedCopyKernel>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, OrderedCopyTest,
                         testing::ValuesIn(AvailableOrderedCopyKernels().begin(),
                                           AvailableOrderedCopyKernels().end()),
                         NameOf);

// ---- the order of all stores, as the kernels are written ----

/// A Sink that copies nothing and looks at each store.
class StoreRecord {
 public:
  static void Begin(uint8_t* to, size_t length_bytes) {
    begin_ = next_ = to;
    end_ = to + length_bytes;
    is_right_ = true;
  }
  template <typename Piece>
  static void Store(uint8_t* to, const Piece& /*piece*/) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(to) % sizeof(Piece) == 0;
    uint8_t* const eight = to - reinterpret_cast<uintptr_t>(to) % 8;
    const bool is_whole = sizeof(Piece) >= 8 || eight < begin_ || eight + 8 > end_;
    is_right_ = is_right_ && to == next_ && is_aligned && is_whole;
    // The last line has no store that is visible in parts.
    if (sizeof(Piece) > 16) is_right_ = is_right_ && LineOf(to) < LineOf(end_ - 1);
    next_ = to + sizeof(Piece);
  }

  static bool is_right() { return is_right_; }
  static uint8_t* next() { return next_; }

 private:
  static uintptr_t LineOf(const uint8_t* at) { return reinterpret_cast<uintptr_t>(at) / 64; }

  static inline uint8_t* begin_;
  static inline uint8_t* next_;
  static inline uint8_t* end_;
  static inline bool is_right_;
};

template <size_t vector_bytes>
void ExpectRisingStores() {
  std::vector<uint8_t> source(kMaxBytes);
  std::vector<uint8_t> memory(kMaxBytes + 2 * kAlignments);
  uint8_t* const line = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data())) % kAlignments;
  for (size_t length = 0; length <= kMaxBytes; ++length) {
    for (size_t i = 0; i < kAlignments; ++i) {
      StoreRecord::Begin(line + i, length);
      RisingCopy<vector_bytes, StoreRecord>(line + i, source.data(), length).Run();
      ASSERT_TRUE(StoreRecord::is_right()) << length << " bytes to offset " << i;
      ASSERT_EQ(StoreRecord::next(), line + i + length) << length << " bytes to offset " << i;
    }
  }
}

TEST(RisingCopyTest, EveryStoreBeginsWhereTheLastEndedAndHasWholePieces) {
  ExpectRisingStores<16>();
  ExpectRisingStores<32>();
  ExpectRisingStores<64>();
}

}  // namespace
}  // namespace uroce::datapath
