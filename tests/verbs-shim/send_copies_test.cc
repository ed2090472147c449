// SPDX-License-Identifier: Apache-2.0
// Payload that posts copy: where copies lie, and which regions the daemon does not map.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "verbs-shim/connection_tables.h"
#include "verbs-shim/copy_ring.h"

namespace uroce::shim {
namespace {

class CopyRingTest : public testing::Test {
 protected:
  static constexpr uint32_t kBytes = 256 << 10;
  static constexpr uint32_t kRequests = 16;

  /// What the test knows of a copy under way.
  struct Known {
    uint32_t request;
    uint32_t begin;
    uint32_t bytes;
  };

  bool Add(uint32_t bytes) {
    uint32_t begin = 0;
    if (!ring_.Add(next_, bytes, &begin)) return false;
    known_.push_back({next_++, begin, bytes});
    return true;
  }
  void Complete() {
    known_.pop_front();
    ring_.Forget(known_.empty() ? next_ : known_.front().request);
  }
  /// Whether all copies under way are apart and in the ring.
  bool AreApart() const {
    std::vector<Known> sorted(known_.begin(), known_.end());
    std::ranges::sort(sorted, {}, &Known::begin);
    uint32_t end = 0;
    for (const Known& each : sorted) {
      if (each.begin < end || each.begin % UROCE_LINE != 0) return false;
      end = each.begin + each.bytes;
    }
    return end <= kBytes;
  }

  std::vector<CopyRing::Copy> list_{kRequests};
  CopyRing ring_{kBytes, list_.data(), kRequests};
  uint32_t next_ = UINT32_MAX - 100;  // The numbers of requests wrap.
  std::deque<Known> known_;
};

TEST_F(CopyRingTest, CopiesOfRequestsUnderWayNeverOverlap) {
  std::mt19937 generator(1);
  const auto random = [&generator] { return static_cast<uint32_t>(generator()); };
  uint64_t added = 0, refused = 0, most = 0;
  for (int step = 0; step < 100'000; ++step) {
    const uint32_t choice = random() % 8;
    if (choice < 5) {
      const uint32_t bytes = 1 + random() % (random() % 2 == 0 ? 100 : kBytes / 4);
      ++(Add(bytes) ? added : refused);
    } else if (choice < 7 && !known_.empty()) {
      Complete();
    } else if (!known_.empty()) {
      // The newest ones are taken back, as ibv_wr_abort does, or after a copy that failed.
      const uint32_t count = 1 + random() % static_cast<uint32_t>(known_.size());
      for (uint32_t i = 0; i < count; ++i) known_.pop_back();
      next_ -= count;
      ring_.TakeBack(next_);
    }
    ASSERT_TRUE(AreApart()) << "step " << step;
    most = std::max<uint64_t>(most, known_.size());
  }
  EXPECT_GT(added, 10'000u);
  EXPECT_GT(refused, 100u);
  EXPECT_EQ(most, kRequests);
}

TEST_F(CopyRingTest, AFullQueueOfEqualMessagesHasRoomAgainAndAgain) {
  constexpr uint32_t kMessage = kBytes / kRequests;
  // At first the ring uses a part of its bytes, and a few messages find no room.
  for (int i = 0; i < 4 * int{kRequests}; ++i) {
    if (!Add(kMessage)) Complete();
  }
  while (!known_.empty()) Complete();
  for (uint32_t i = 0; i < kRequests; ++i) ASSERT_TRUE(Add(kMessage)) << i;
  for (int round = 0; round < 1000; ++round) {
    Complete();
    ASSERT_TRUE(Add(kMessage)) << round;
  }
}

TEST_F(CopyRingTest, FewRequestsUnderWayUseFewBytes) {
  uint32_t end = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Add(4096));
    end = std::max(end, known_.back().begin + known_.back().bytes);
    if (known_.size() == 4) Complete();
  }
  EXPECT_LE(end, kBytes / 4);
}

TEST_F(CopyRingTest, RequestsWithoutACopyAreForgottenToo) {
  ASSERT_TRUE(Add(kBytes));
  next_ += 50;  // Requests whose payload was not copied.
  EXPECT_FALSE(Add(64));
  ring_.Forget(next_);
  known_.clear();
  EXPECT_TRUE(Add(kBytes));
}

class CopiedRegionsTest : public testing::Test {
 protected:
  static constexpr CopiedRegion kRegion = {
      .lkey = 0x1234, .pd = 7, .iova = 0x10000, .start = 0x7f0000000000, .length = 0x2000};

  CopiedRegionsTest() { regions_->Begin(); }
  bool Find(uint32_t lkey, uint32_t pd, uint64_t addr, uint64_t length) {
    return regions_->Find(lkey, pd, addr, length, &start_);
  }

  std::unique_ptr<CopiedRegions> regions_ = std::make_unique<CopiedRegions>();
  uint64_t start_ = 0;
};

TEST_F(CopiedRegionsTest, BytesOfARegionAreFoundByItsKeyAndDomain) {
  EXPECT_TRUE(regions_->empty());
  regions_->Add(kRegion);
  EXPECT_FALSE(regions_->empty());
  ASSERT_TRUE(Find(kRegion.lkey, kRegion.pd, 0x10010, 0x1ff0));
  EXPECT_EQ(start_, kRegion.start + 0x10);
  EXPECT_FALSE(Find(kRegion.lkey + 1, kRegion.pd, 0x10010, 16));
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd + 1, 0x10010, 16));
  regions_->Remove(kRegion.lkey);
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd, 0x10010, 16));
}

TEST_F(CopiedRegionsTest, BytesBesideARegionAreNotFound) {
  regions_->Add(kRegion);
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd, 0xffff, 1));
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd, 0x12000, 1));
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd, 0x11fff, 2));
  EXPECT_FALSE(Find(kRegion.lkey, kRegion.pd, 0x10000, UINT64_MAX));
  EXPECT_TRUE(Find(kRegion.lkey, kRegion.pd, 0x11fff, 1));
}

TEST_F(CopiedRegionsTest, NothingIsRecordedBeforeTheBegin) {
  CopiedRegions unused;
  unused.Add(kRegion);
  EXPECT_TRUE(unused.empty());
}

TEST_F(CopiedRegionsTest, RemovingAKeyLeavesAnotherOneInItsPlace) {
  regions_->Add(kRegion);
  CopiedRegion other = kRegion;
  // Some key pushes the first one out.
  for (other.lkey = 1; Find(kRegion.lkey, kRegion.pd, 0x10000, 1); ++other.lkey) {
    regions_->Add(other);
  }
  --other.lkey;
  regions_->Remove(kRegion.lkey);
  EXPECT_TRUE(Find(other.lkey, kRegion.pd, 0x10000, 1));
}

// The answer belongs to one region, never to parts of two.
TEST_F(CopiedRegionsTest, ALookBesideChangesSeesOneRegion) {
  std::atomic<bool> stop{false};
  regions_->Add(kRegion);
  std::thread writer([&] {
    for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      CopiedRegion region = kRegion;
      region.iova += (i % 64) << 12;
      region.start += (i % 64) << 20;
      regions_->Add(region);
    }
  });
  uint64_t found = 0;
  for (int i = 0; i < 2'000'000 && found < 10'000; ++i) {
    const uint64_t addr = kRegion.iova + ((i % 64) << 12);
    if (!Find(kRegion.lkey, kRegion.pd, addr, 16)) continue;
    ++found;
    const uint64_t region = (start_ - kRegion.start) >> 20;
    const uint64_t expected =
        kRegion.start + (region << 20) + (addr - (kRegion.iova + (region << 12)));
    EXPECT_EQ(start_, expected);
    EXPECT_LE(region, static_cast<uint64_t>(i % 64));
  }
  stop = true;
  writer.join();
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace uroce::shim
