// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <unordered_map>

#include "tests/datapath/memory/test_domains.h"

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

TEST(KeyTableTest, UnpublishOfAnUnknownKeyChangesNothing) {
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

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    // Mapped, copied, mapped: 100, 50 and 30 bytes from iova 0x1000.
    region_.key = 0x55;
    region_.pd = kPd;
    region_.access = kLocalWrite | kRemoteRead;
    region_.iova = 0x1000;
    region_.length_bytes = 180;
    region_.segments = {
        {.iova = 0x1000, .length_bytes = 100, .mode = MrMode::kMapped, .mapped = front_.data()},
        {.iova = 0x1064, .length_bytes = 50, .mode = MrMode::kCopied, .app_addr = 0x7000},
        {.iova = 0x1096, .length_bytes = 30, .mode = MrMode::kMapped, .mapped = back_.data()},
    };
    EXPECT_TRUE(keys_.Publish(&region_));
  }

  bool Allowed(uint64_t va, uint64_t length, AccessRight right = {kPd, kLocalRead}) {
    return static_cast<bool>(CheckAccess(keys_, region_.key, va, length, right));
  }

  bool Next(PieceWalker& walker, Piece& piece) {
    if (walker.at_end() || !walker.Look(keys_, piece)) return false;
    walker.Pass(piece);
    return true;
  }

  std::array<uint8_t, 100> front_{};
  std::array<uint8_t, 30> back_{};
  MemoryRegion region_;
  KeyTable keys_{8};
};

TEST_F(AccessTest, RangeMustLieInsideTheRegion) {
  EXPECT_TRUE(Allowed(0x1000, 180));
  EXPECT_TRUE(Allowed(0x10b3, 1));
  EXPECT_FALSE(Allowed(0x1000, 181));
  EXPECT_FALSE(Allowed(0xfff, 2));
  EXPECT_FALSE(Allowed(0x10b4, 1));
  EXPECT_FALSE(Allowed(UINT64_MAX, 2)) << "an address that wraps";
  EXPECT_FALSE(Allowed(0x1000, UINT64_MAX));
}

TEST_F(AccessTest, PdAndRightsMustMatch) {
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd + 1, kLocalRead}));
  EXPECT_TRUE(Allowed(0x1000, 1, {kPd, kRemoteRead}));
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd, kRemoteWrite}));
  EXPECT_FALSE(Allowed(0x1000, 1, {kPd, kLocalWrite | kRemoteAtomic}));
}

TEST_F(AccessTest, UnknownKeyIsDenied) {
  EXPECT_FALSE(CheckAccess(keys_, 0x56, 0x1000, 1, {kPd, kLocalRead}));
}

TEST_F(AccessTest, PiecesEndWithTheirSegment) {
  const Piece first = PieceAt(region_, 0x1060, 100);
  EXPECT_EQ(first.mode, MrMode::kMapped);
  EXPECT_EQ(first.mapped, front_.data() + 96);
  EXPECT_EQ(first.length_bytes, 4u);
  const Piece second = PieceAt(region_, 0x1064, 96);
  EXPECT_EQ(second.mode, MrMode::kCopied);
  EXPECT_EQ(second.app_addr, 0x7000u);
  EXPECT_EQ(second.length_bytes, 50u);
  const Piece third = PieceAt(region_, 0x1097, 29);
  EXPECT_EQ(third.mapped, back_.data() + 1);
  EXPECT_EQ(third.length_bytes, 29u);
}

// Found by a guess where parts are equal, and by search where they are not.
TEST(PieceTest, EveryByteOfManyPartsIsFoundInItsPart) {
  for (const uint64_t odd : {0, 1, 40}) {
    MemoryRegion region;
    region.iova = 0x1000;
    for (uint64_t i = 0; i < 9; ++i) {
      const MrSegment part{.iova = region.iova + region.length_bytes,
                           .length_bytes = i % 3 == 0 ? 16 + odd : 16,
                           .mode = MrMode::kCopied,
                           .app_addr = i << 32};
      region.segments.push_back(part);
      region.length_bytes += part.length_bytes;
    }
    for (const MrSegment& part : region.segments) {
      for (uint64_t at = 0; at < part.length_bytes; ++at) {
        const Piece piece = PieceAt(region, part.iova + at, 1000);
        ASSERT_EQ(piece.app_addr, part.app_addr + at);
        ASSERT_EQ(piece.length_bytes, part.length_bytes - at);
      }
    }
  }
}

TEST_F(AccessTest, WalkerVisitsListAndSegmentsInOrder) {
  const uroce_sge list[] = {{0x1010, 8, 0x55}, {0, 0, 0}, {0x1060, 64, 0x55}};
  PieceWalker walker(list, 4, 64, {kPd, kLocalRead});
  Piece piece;
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, front_.data() + 0x14);
  EXPECT_EQ(piece.length_bytes, 4u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, front_.data() + 0x60);
  EXPECT_EQ(piece.length_bytes, 4u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mode, MrMode::kCopied);
  EXPECT_EQ(piece.length_bytes, 50u);
  ASSERT_TRUE(Next(walker, piece));
  EXPECT_EQ(piece.mapped, back_.data());
  EXPECT_EQ(piece.length_bytes, 6u) << "the range ends inside the entry";
  EXPECT_TRUE(walker.at_end());
}

TEST_F(AccessTest, WalkerStopsAtABadEntry) {
  const uroce_sge list[] = {{0x1000, 8, 0x55}, {0x1000, 8, 0x99}};
  PieceWalker walker(list, 0, 16, {kPd, kLocalRead});
  Piece piece;
  EXPECT_TRUE(Next(walker, piece));
  EXPECT_FALSE(walker.at_end());
  EXPECT_FALSE(walker.Look(keys_, piece));
}

TEST_F(AccessTest, WalkerBeyondTheListIsDenied) {
  const uroce_sge list[] = {{0x1000, 8, 0x55}};
  PieceWalker walker(list, 8, 1, {kPd, kLocalRead});
  Piece piece;
  EXPECT_FALSE(walker.at_end());
  EXPECT_FALSE(walker.Look(keys_, piece));
}

// A queue pair of another program reaches a region of an imported domain by its mapping alone, so
// it reaches none while the memory rests.
TEST_F(AccessTest, MemoryThatRestsIsReachedByItsOwnProgramsHelperAlone) {
  const auto* const other = reinterpret_cast<const Session*>(front_.data());  // Compared, not read.
  const uroce_sge list[] = {{0x1000, 8, 0x55}};
  const auto look = [&](const Session* session, Piece& piece) {
    PieceWalker walker(list, 0, 8, {kPd, kLocalRead, 0, session});
    return walker.Look(keys_, piece);
  };
  Piece piece;
  ASSERT_TRUE(look(other, piece));
  EXPECT_EQ(piece.mode, MrMode::kMapped);
  MemoryRest rest(true);
  region_.rest = &rest;
  EXPECT_FALSE(look(region_.session, piece)) << "no helper";
  region_.has_helper = true;
  EXPECT_FALSE(look(other, piece));
  ASSERT_TRUE(look(region_.session, piece));
  EXPECT_EQ(piece.mode, MrMode::kCopied);
  EXPECT_EQ(piece.mapped, nullptr);
  EXPECT_TRUE(piece.may_wait);
}

TEST_F(AccessTest, ZeroBytesNeedNoKey) {
  const uroce_sge list[] = {{0, 0, 0}};
  const PieceWalker walker(list, 0, 0, {kPd, kLocalWrite});
  EXPECT_TRUE(walker.at_end());
}

using Type = MemoryWindow::Type;

constexpr uint32_t kOtherPd = 8;
constexpr uint32_t kQpn = 100;
constexpr uint32_t kOtherQpn = 101;
constexpr uint32_t kRegionKey = 0x5501;
constexpr uint64_t kStart = 0x10'0000;
constexpr uint64_t kBytes = 4096;

/// A region of 4096 bytes that windows may be bound to, and a window of either type.
class WindowWorksTest : public testing::Test {
 protected:
  WindowWorksTest() {
    region_.key = kRegionKey;
    region_.pd = kPd;
    region_.access = kLocalWrite | kWindowBind;
    region_.iova = kStart;
    region_.length_bytes = kBytes;
    region_.segments = {{.iova = kStart, .length_bytes = kBytes, .mapped = bytes_.data()}};
    region_.bound_windows = &bound_;
    EXPECT_TRUE(keys_.Publish(&region_));
    for (auto [entry, window] : {std::pair(&entry_1_, &one_), std::pair(&entry_2_, &two_)}) {
      entry->key = window->key() & ~kKeyVariant;
      entry->window = window;
      EXPECT_TRUE(keys_.Publish(entry));
    }
  }

  static BindRequest Request(const MemoryWindow& window, uint32_t access = kRemoteWrite) {
    return {.addr = kStart + 100,
            .length_bytes = 1000,
            .window_key = window.key(),
            .new_key = window.key() + 1,
            .region_key = kRegionKey,
            .access = access};
  }
  bool Binds(const BindRequest& request, const WindowUser& user = {kPd, kQpn}) {
    return BindWindow(keys_, request, user).done;
  }
  Grant Access(const MemoryWindow& window, uint64_t va, uint64_t length,
               const AccessRight& right = {kPd, kRemoteWrite, kQpn}) {
    return CheckAccess(keys_, window.key(), va, length, right);
  }

  std::array<uint8_t, kBytes> bytes_{};
  std::atomic<uint32_t> bound_{0};
  MemoryRegion region_;
  MemoryWindow one_{Type::kType1, kPd, 0x7701};
  MemoryWindow two_{Type::kType2, kPd, 0x8801};
  MemoryRegion entry_1_;
  MemoryRegion entry_2_;
  KeyTable keys_{8};
};

// [8.window.grant 8.window.unbound]
TEST_F(WindowWorksTest, ABoundWindowGrantsItsPartOfTheRegion) {
  for (MemoryWindow* window : {&one_, &two_}) {
    EXPECT_FALSE(Access(*window, kStart + 100, 1));
    ASSERT_TRUE(Binds(Request(*window)));
    const Grant grant = Access(*window, kStart + 100, 1000);
    EXPECT_EQ(grant.region, &region_);
    EXPECT_EQ(grant.va, kStart + 100);
    EXPECT_FALSE(Access(*window, kStart + 99, 2));
    EXPECT_FALSE(Access(*window, kStart + 100, 1001));
    EXPECT_FALSE(Access(*window, kStart + 1100, UINT64_MAX));
    EXPECT_FALSE(Access(*window, kStart + 100, 1, {kPd, kRemoteRead, kQpn})) << "not granted";
    EXPECT_FALSE(Access(*window, kStart + 100, 1, {kOtherPd, kRemoteWrite, kQpn}));
    EXPECT_FALSE(Access(*window, kStart + 100, 1, {kPd, kLocalRead, kQpn})) << "it has no lkey";
    EXPECT_FALSE(Access(*window, kStart + 100, 1, {kPd, kLocalWrite, kQpn}));
  }
}

// [8.window.grant]
TEST_F(WindowWorksTest, AWindowStaysInItsDomainWhenItsRegionMovesToAnother) {
  ASSERT_TRUE(Binds(Request(one_)));
  region_.pd = kOtherPd;
  EXPECT_FALSE(Access(one_, kStart + 100, 1)) << "of bytes that are another domain's now";
  EXPECT_FALSE(Access(one_, kStart + 100, 1, {kOtherPd, kRemoteWrite, kQpn}));
}

// [8.window.type1 8.window.type2]
TEST_F(WindowWorksTest, Type2IsOfTheQueuePairThatBoundIt) {
  ASSERT_TRUE(Binds(Request(one_)));
  ASSERT_TRUE(Binds(Request(two_)));
  EXPECT_TRUE(Access(one_, kStart + 100, 1, {kPd, kRemoteWrite, kOtherQpn}));
  EXPECT_FALSE(Access(two_, kStart + 100, 1, {kPd, kRemoteWrite, kOtherQpn}));
}

// [8.window.zero-based]
TEST_F(WindowWorksTest, AddressesOfAZeroBasedWindowBeginAtZero) {
  EXPECT_FALSE(Binds(Request(one_, kRemoteWrite | kZeroBased))) << "type 2 alone";
  ASSERT_TRUE(Binds(Request(two_, kRemoteWrite | kZeroBased)));
  EXPECT_EQ(Access(two_, 10, 990).va, kStart + 110);
  EXPECT_FALSE(Access(two_, 10, 991));
  EXPECT_FALSE(Access(two_, kStart + 100, 1));
}

// [8.window.bind]
TEST_F(WindowWorksTest, BindingDemandsRightsOfTheRegion) {
  region_.access = kLocalWrite;
  EXPECT_FALSE(Binds(Request(two_))) << "without MW_BIND";
  region_.access = kWindowBind;
  EXPECT_FALSE(Binds(Request(two_))) << "writing, without LOCAL_WRITE";
  EXPECT_FALSE(Binds(Request(two_, kRemoteAtomic)));
  region_.access = kWindowBind | kLocalWrite | kZeroBased;
  EXPECT_FALSE(Binds(Request(two_))) << "of a zero-based region";
  region_.access = kWindowBind;
  EXPECT_TRUE(Binds(Request(two_, kRemoteRead)));
}

// [8.window.bind]
TEST_F(WindowWorksTest, BindingDemandsOneDomain) {
  EXPECT_FALSE(Binds(Request(two_), {kOtherPd, kQpn}));
  region_.pd = kOtherPd;
  EXPECT_FALSE(Binds(Request(two_)));
}

// [8.window.bind]
TEST_F(WindowWorksTest, BindingDemandsARangeInsideTheRegion) {
  BindRequest request = Request(two_);
  request.length_bytes = kBytes;
  EXPECT_FALSE(Binds(request));
  request.addr = kStart - 1;
  EXPECT_FALSE(Binds(request));
  request = Request(two_);
  request.region_key = 0x9900;
  EXPECT_FALSE(Binds(request)) << "an unknown region";
  request.region_key = entry_1_.key;
  EXPECT_FALSE(Binds(request)) << "a window is no region";
}

// [8.window.type1 8.window.type2]
TEST_F(WindowWorksTest, NoBytesUnbindType1AndAreAnErrorOfType2) {
  ASSERT_TRUE(Binds(Request(one_)));
  BindRequest none{.window_key = one_.key(), .new_key = one_.key() + 1};
  const WindowChange change = BindWindow(keys_, none, {kPd, kQpn});
  EXPECT_TRUE(change.done);
  EXPECT_TRUE(change.has_ended);
  EXPECT_FALSE(Access(one_, kStart + 100, 1));
  none.window_key = two_.key();
  EXPECT_FALSE(Binds(none));
}

// [8.window.invalidate]
TEST_F(WindowWorksTest, AnInvalidatedKeyGrantsNothing) {
  ASSERT_TRUE(Binds(Request(two_)));
  EXPECT_FALSE(InvalidateWindow(keys_, two_.key(), kOtherPd).done);
  EXPECT_FALSE(InvalidateWindow(keys_, two_.key() + 1, kPd).done);
  EXPECT_FALSE(InvalidateWindow(keys_, kRegionKey, kPd).done) << "a region is none";
  const WindowChange change = InvalidateWindow(keys_, two_.key(), kPd);
  EXPECT_TRUE(change.done);
  EXPECT_EQ(change.former_qpn, kQpn);
  EXPECT_FALSE(Access(two_, kStart + 100, 1));
}

// [8.window.region]
TEST_F(WindowWorksTest, TheRegionCountsItsWindows) {
  ASSERT_TRUE(Binds(Request(one_)));
  ASSERT_TRUE(Binds(Request(two_)));
  EXPECT_EQ(bound_, 2u);
  ASSERT_TRUE(Binds(Request(one_))) << "bound again to the same";
  EXPECT_FALSE(Binds(Request(two_)));
  EXPECT_EQ(bound_, 2u);
  ASSERT_TRUE(InvalidateWindow(keys_, two_.key(), kPd).done);
  EXPECT_EQ(bound_, 1u);
  keys_.Unpublish(&entry_1_);
  ReleaseBinding(keys_, one_);
  EXPECT_EQ(bound_, 0u);
}

// [8.window.region]
TEST_F(WindowWorksTest, AWindowOnARegionThatGoesGrantsNothing) {
  ASSERT_TRUE(Binds(Request(two_)));
  keys_.Unpublish(&region_);
  EXPECT_FALSE(Access(two_, kStart + 100, 1));
  EXPECT_TRUE(InvalidateWindow(keys_, two_.key(), kPd).done);
  // Another under the same key, smaller and not for writing.
  ASSERT_TRUE(keys_.Publish(&region_));
  ASSERT_TRUE(Binds(Request(two_)));
  region_.length_bytes = 500;
  EXPECT_TRUE(Access(two_, kStart + 100, 400));
  EXPECT_FALSE(Access(two_, kStart + 100, 401));
  region_.access = kWindowBind;
  EXPECT_FALSE(Access(two_, kStart + 100, 1));
}

}  // namespace
}  // namespace uroce::datapath
