// SPDX-License-Identifier: Apache-2.0
// Work requests in slots: what is written is read back, and promises beyond the limits are refused.
#include "pipeline/shm/rings/work_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace uroce::rings {
namespace {

class WqeTest : public testing::Test {
 protected:
  static constexpr uint32_t kSlotBytes = SendSlotBytes(UROCE_MAX_SGE, UROCE_MAX_INLINE);
  alignas(64) std::array<uint8_t, kSlotBytes> slot_{};
  SendWqe send_{};
  ReceiveWqe receive_{};
};

TEST_F(WqeTest, OneSgeWithoutInlineTakesOneCacheLine) {
  EXPECT_EQ(SendSlotBytes(1, 0), 64u);
  EXPECT_EQ(SendSlotBytes(1, 16), 64u);
  EXPECT_EQ(SendSlotBytes(2, 0), 128u);
  EXPECT_EQ(SendSlotBytes(1, 17), 128u);
  EXPECT_EQ(ReceiveSlotBytes(1), 32u);
  EXPECT_EQ(ReceiveSlotBytes(2), 64u);
  EXPECT_EQ(ReceiveSlotBytes(4), 128u);
}

TEST_F(WqeTest, ASendRequestKeepsAllItsFields) {
  const uroce_send_wqe header = {.wr_id = 0x1122334455667788,
                                 .opcode = 5,
                                 .flags = UROCE_SEND_SIGNALED | UROCE_SEND_FENCE,
                                 .num_sge = 2,
                                 .imm_or_rkey = 0xaabbccdd,
                                 .remote_addr = 0xdeadbeef00,
                                 .rkey = 77,
                                 .xrc_srqn = 0x123456,
                                 .atomic = {.compare_add = 3, .swap = 4}};
  uint8_t* tail = WriteSendHeader(slot_.data(), header);
  WriteSge(tail, 0, 0x1000, 10, 1);
  WriteSge(tail, 1, 0x2000, 20, 2);
  ASSERT_EQ(ReadSendWqe(slot_.data(), {2, 0}, send_), WqeResult::kOk);
  EXPECT_EQ(std::memcmp(&send_.header, &header, sizeof(header)), 0);
  EXPECT_EQ(send_.sges[0].addr, 0x1000u);
  EXPECT_EQ(send_.sges[1].addr, 0x2000u);
  EXPECT_EQ(send_.sges[1].length, 20u);
  EXPECT_EQ(send_.sges[1].lkey, 2u);
}

TEST_F(WqeTest, InlineBytesTravelInTheSlot) {
  uint8_t* tail = WriteSendHeader(
      slot_.data(), {.wr_id = 1, .flags = UROCE_SEND_INLINE, .inline_length = UROCE_MAX_INLINE});
  std::memset(tail, 0x5a, UROCE_MAX_INLINE);
  ASSERT_EQ(ReadSendWqe(slot_.data(), {1, UROCE_MAX_INLINE}, send_), WqeResult::kOk);
  EXPECT_TRUE(send_.is_inline());
  EXPECT_EQ(std::memcmp(send_.inline_data, tail, UROCE_MAX_INLINE), 0);
}

TEST_F(WqeTest, MoreSgesThanTheQueuePairHasAreRefused) {
  for (const uint16_t count : {uint16_t{3}, uint16_t{33}, uint16_t{0x100}, uint16_t{0xffff}}) {
    WriteSendHeader(slot_.data(), {.wr_id = 9, .num_sge = count});
    EXPECT_EQ(ReadSendWqe(slot_.data(), {2, 0}, send_), WqeResult::kTooManySges);
    EXPECT_EQ(send_.header.wr_id, 9u);
    WriteReceiveHeader(slot_.data(), 9, count);
    EXPECT_EQ(ReadReceiveWqe(slot_.data(), 2, receive_), WqeResult::kTooManySges);
    EXPECT_EQ(receive_.header.wr_id, 9u);
  }
}

TEST_F(WqeTest, MoreInlineThanTheQueuePairHasIsRefused) {
  for (const uint16_t length : {uint16_t{65}, uint16_t{UROCE_MAX_INLINE}, uint16_t{0xffff}}) {
    WriteSendHeader(slot_.data(),
                    {.wr_id = 9, .flags = UROCE_SEND_INLINE, .inline_length = length});
    EXPECT_EQ(ReadSendWqe(slot_.data(), {2, 64}, send_), WqeResult::kInlineTooLong);
    EXPECT_EQ(send_.header.wr_id, 9u);
  }
}

TEST_F(WqeTest, AReceiveRequestMayHaveNoSge) {
  WriteReceiveHeader(slot_.data(), 42, 0);
  ASSERT_EQ(ReadReceiveWqe(slot_.data(), 1, receive_), WqeResult::kOk);
  EXPECT_EQ(receive_.header.wr_id, 42u);
  EXPECT_EQ(receive_.header.num_sge, 0u);
}

TEST_F(WqeTest, AReceiveRequestKeepsAllItsSges) {
  uint8_t* tail = WriteReceiveHeader(slot_.data(), 1, UROCE_MAX_SGE);
  for (uint32_t i = 0; i < UROCE_MAX_SGE; ++i) WriteSge(tail, i, i * 0x1000, i, i + 1);
  ASSERT_EQ(ReadReceiveWqe(slot_.data(), UROCE_MAX_SGE, receive_), WqeResult::kOk);
  for (uint32_t i = 0; i < UROCE_MAX_SGE; ++i) {
    EXPECT_EQ(receive_.sges[i].addr, i * 0x1000u);
    EXPECT_EQ(receive_.sges[i].length, i);
    EXPECT_EQ(receive_.sges[i].lkey, i + 1);
  }
}

}  // namespace
}  // namespace uroce::rings
