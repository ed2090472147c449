// SPDX-License-Identifier: Apache-2.0
// The mark of a frame without an ICRC: who fills the ICRC in, and what stays as it is.
#include "pipeline/port/frame_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

class PendingIcrcTest : public FramePoolTest, public testing::WithParamInterface<bool> {
 protected:
  /// A packet without its ICRC, marked.
  rte_mbuf* Marked() {
    rte_mbuf* const frame = Frame(0, static_cast<uint16_t>(whole_.size()));
    auto* const bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    std::copy(whole_.begin(), whole_.end(), bytes);
    std::fill_n(bytes + whole_.size() - wire::kIcrcBytes, wire::kIcrcBytes, 0x77);
    pending_.Set(*frame);
    return frame;
  }
  bool IsWhole(const rte_mbuf* frame) const {
    return std::equal(whole_.begin(), whole_.end(), rte_pktmbuf_mtod(frame, const uint8_t*));
  }

  const std::vector<uint8_t> whole_ = wire::PacketTrain{.ipv6 = GetParam()}.Next(1023);
  const PendingIcrc pending_;
};

TEST_P(PendingIcrcTest, FilledInItIsThatOfThePacketAndTheMarkStays) {
  rte_mbuf* const frame = Marked();
  EXPECT_FALSE(IsWhole(frame));
  pending_.Fill(*frame);
  EXPECT_TRUE(IsWhole(frame));
  EXPECT_TRUE(pending_.IsSet(*frame));
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, SettledItIsCheckedAgain) {
  rte_mbuf* const frame = Marked();
  pending_.Settle(*frame);
  EXPECT_TRUE(IsWhole(frame));
  EXPECT_FALSE(pending_.IsSet(*frame));
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, AFrameWithoutTheMarkKeepsItsBytes) {
  rte_mbuf* const frame = Marked();
  pending_.Settle(*frame);
  uint8_t& last = rte_pktmbuf_mtod(frame, uint8_t*)[whole_.size() - 1];
  last ^= 1;
  const uint8_t wrong = last;
  pending_.Fill(*frame);
  EXPECT_EQ(last, wrong);
  rte_pktmbuf_free(frame);
}

TEST_P(PendingIcrcTest, AFrameFromThePoolHasNoMark) {
  rte_mbuf* const marked = Marked();
  rte_pktmbuf_free(marked);
  std::vector<rte_mbuf*> all(kFrames);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool(), all.data(), kFrames), 0);
  for (rte_mbuf* frame : all) EXPECT_FALSE(pending_.IsSet(*frame));
  rte_pktmbuf_free_bulk(all.data(), kFrames);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PendingIcrcTest, testing::Bool(),
                         [](const auto& its) { return its.param ? "ipv6" : "ipv4"; });

}  // namespace
}  // namespace uroce::drivers
