// SPDX-License-Identifier: Apache-2.0
// Superframes in mbufs, the frames that they are cut into, and the buffers that mbufs borrow.
#include "pipeline/port/superframes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes BytesOf(const rte_mbuf& frame) {
  const auto* const begin = rte_pktmbuf_mtod(&frame, const uint8_t*);
  return {begin, begin + frame.data_len};
}

class SuperframesTest : public FramePoolTest {
 protected:
  std::vector<Bytes> Packets(const std::vector<size_t>& payloads) {
    std::vector<Bytes> packets;
    for (const size_t bytes : payloads) packets.push_back(train_.Next(bytes));
    return packets;
  }

  const SuperframeMark mark_{};
  std::unique_ptr<LongBuffers> buffers_ = std::make_unique<LongBuffers>(2);
  wire::PacketTrain train_;
};

TEST_F(SuperframesTest, WhatIsCutAreThePacketsInTheirOrder) {
  const std::vector<Bytes> packets = Packets({1024, 1024, 1024, 300});
  rte_mbuf* const superframe = SuperframeOf(*buffers_, packets);
  SetDestination(*superframe, Qpn(7));
  EXPECT_EQ(PacketsOf(*superframe), 4u);
  std::vector<Bytes> cut;
  const uint32_t lost = CutSuperframe(superframe, pool(), [&](rte_mbuf* frame) {
    EXPECT_EQ(DestinationOf(*frame), Qpn(7));
    EXPECT_FALSE(mark_.IsSet(*frame));
    cut.push_back(BytesOf(*frame));
    rte_pktmbuf_free(frame);
  });
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(cut, packets);
}

TEST_F(SuperframesTest, PacketsThatThereIsNoMbufForAreCounted) {
  const auto take = [](rte_mbuf* frame) { rte_pktmbuf_free(frame); };
  EXPECT_EQ(CutSuperframe(SuperframeOf(*buffers_, Packets({1024, 1024})), nullptr, take), 2u);
  // Longer than an mbuf of the pool.
  EXPECT_EQ(CutSuperframe(SuperframeOf(*buffers_, Packets({4096, 4096, 8})), pool(), take), 2u);
}

TEST_F(SuperframesTest, PacketsAreTakenOutFromTheFirstOn) {
  const std::vector<Bytes> packets = Packets({1024, 1024, 300});
  rte_mbuf* const superframe = SuperframeOf(*buffers_, packets);
  DropFirstPacket(*superframe);
  EXPECT_EQ(PacketsOf(*superframe), 2u);
  const Bytes rest = BytesOf(*superframe);
  EXPECT_EQ(Bytes(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(packets[1].size())),
            packets[1]);
  DropFirstPacket(*superframe);
  EXPECT_EQ(PacketsOf(*superframe), 1u);
  EXPECT_EQ(BytesOf(*superframe), packets[2]);
  rte_pktmbuf_free(superframe);
}

TEST_F(SuperframesTest, AFrameIsOnePacket) {
  rte_mbuf* const frame = Frame(1);
  EXPECT_EQ(PacketsOf(*frame), 1u);
  rte_pktmbuf_free(frame);
}

TEST_F(SuperframesTest, ABufferComesBackWithItsFrame) {
  rte_mbuf* const first = rte_pktmbuf_alloc(pool());
  rte_mbuf* const second = rte_pktmbuf_alloc(pool());
  rte_mbuf* const third = rte_pktmbuf_alloc(pool());
  EXPECT_TRUE(buffers_->Lend(*first));
  EXPECT_TRUE(buffers_->Lend(*second));
  EXPECT_FALSE(buffers_->Lend(*third));
  EXPECT_FALSE(LongBuffers::IsLent(*third));
  EXPECT_TRUE(LongBuffers::IsLent(*first));
  EXPECT_EQ(first->buf_len, kMaxFrameBytes);
  std::thread([&] { rte_pktmbuf_free(first); }).join();
  EXPECT_TRUE(buffers_->Lend(*third));
  rte_pktmbuf_free(second);
  rte_pktmbuf_free(third);
}

TEST_F(SuperframesTest, AFrameKeepsItsBufferWhenTheOthersHaveGone) {
  const std::vector<Bytes> packets = Packets({1024, 1024});
  rte_mbuf* const superframe = SuperframeOf(*buffers_, packets);
  const Bytes before = BytesOf(*superframe);
  buffers_.reset();
  EXPECT_EQ(BytesOf(*superframe), before);
  rte_pktmbuf_free(superframe);
}

TEST_F(SuperframesTest, ABufferThatIsTakenAndGivenBackIsFree) {
  LongBuffer* const one = buffers_->Take();
  LongBuffer* const two = buffers_->Take();
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(buffers_->Take(), nullptr);
  LongBuffers::GiveBack(one);
  EXPECT_EQ(buffers_->Take(), one);
  rte_mbuf* const frame = rte_pktmbuf_alloc(pool());
  buffers_->Lend(*frame, two, 20);
  EXPECT_EQ(rte_pktmbuf_mtod(frame, uint8_t*), two->bytes.data() + 20);
  rte_pktmbuf_free(frame);
  EXPECT_EQ(buffers_->Take(), two);
}

}  // namespace
}  // namespace uroce::drivers
