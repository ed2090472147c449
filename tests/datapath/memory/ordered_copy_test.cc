// SPDX-License-Identifier: Apache-2.0
// Every kernel that this machine runs: what it writes, and what is to be seen meanwhile.
#include "pipeline/datapath/memory/ordered_copy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pipeline/datapath/memory/rising_copy.h"
#include "tests/datapath/step_watch.h"

namespace uroce::datapath {
namespace {

using Fault = StepWatch::Fault;

constexpr size_t kMaxBytes = 8192;
constexpr size_t kAlignments = 64;

class OrderedCopyTest : public testing::TestWithParam<OrderedCopyKernel> {
 protected:
  /// Fails unless a program that polls could see nothing but first bytes, then old ones.
  void ExpectInOrder(size_t length, size_t to_offset) {
    const size_t from_offset = (length * 7 + to_offset * 5) % kAlignments;
    StepWatch watch(to_offset, from_offset, length);
    ASSERT_EQ(watch.Run(GetParam().copy), Fault::kNone)
        << length << " bytes to offset " << to_offset << " from offset " << from_offset
        << ": after " << watch.seen_bytes() << " bytes";
  }
};

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

// The compiled code, a sample: the processor traps after each instruction. UROCE_COPY_STEPS=N takes
// so many copies.
TEST_P(OrderedCopyTest, AfterEachInstructionFirstBytesAreNewAndTheRestOld) {
  const char* const count = getenv("UROCE_COPY_STEPS");
  std::mt19937 random(2);
  for (int copies = count != nullptr ? atoi(count) : 60; copies > 0; --copies) {
    const size_t length = random() % (copies % 16 == 0 ? kMaxBytes : 4 * kAlignments);
    ASSERT_NO_FATAL_FAILURE(ExpectInOrder(length, random() % kAlignments));
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

// ---- what finds the faults finds them ----

void CopyBytes(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  auto* bytes = static_cast<volatile uint8_t*>(to);
  for (size_t i = 0; i < length_bytes; ++i) bytes[i] = from[i];
}

void CopyLastByteFirst(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  auto* bytes = static_cast<volatile uint8_t*>(to);
  bytes[length_bytes - 1] = from[length_bytes - 1];
  OrderedCopy(to, from, length_bytes);
}

void CopyAllButTheLast(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  OrderedCopy(to, from, length_bytes - 1);
}

TEST(StepWatchTest, SeesBytesOutOfOrderInPiecesAndMissing) {
  StepWatch watch(3, 0, 100);
  EXPECT_EQ(watch.Run(OrderedCopy), Fault::kNone);
  EXPECT_EQ(watch.Run(CopyBytes), Fault::kTorn);
  EXPECT_EQ(watch.Run(CopyLastByteFirst), Fault::kOrder);
  EXPECT_EQ(watch.Run(CopyAllButTheLast), Fault::kUnequal);
}

}  // namespace
}  // namespace uroce::datapath
