// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/datapath/memory/test_domains.h"

namespace uroce::datapath {
namespace {

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
