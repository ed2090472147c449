// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/capture/packet_history.h"

#include <gtest/gtest.h>

namespace uroce::datapath {
namespace {

TEST(PacketHistoryTest, TheNewestPacketsStayInTheirOrder) {
  PacketHistory ring(4);
  EXPECT_TRUE(ring.InOrder().empty());
  const std::vector<uint8_t> frame(60, 0xab);
  for (int i = 0; i < 10; ++i) {
    ring.Add(UROCE_CAPTURE_OUTBOUND, frame, Nanos(i), {.psn = static_cast<uint32_t>(i)});
  }
  const std::vector<HistoryPacket> packets = ring.InOrder();
  ASSERT_EQ(packets.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(packets[i].time_ns, 6 + i);
    EXPECT_EQ(packets[i].note.psn, 6 + i);
  }
}

TEST(PacketHistoryTest, LongPacketsAreCutAndKeepTheirLength) {
  PacketHistory ring(2);
  const std::vector<uint8_t> frame(4154, 0xcd);
  ring.Add(UROCE_CAPTURE_INBOUND, frame, Nanos(1), {});
  const HistoryPacket packet = ring.InOrder().front();
  EXPECT_EQ(packet.captured_bytes, kHistorySnapBytes);
  EXPECT_EQ(packet.wire_length_bytes, 4154u);
  EXPECT_EQ(packet.bytes.back(), 0xcd);
}

}  // namespace
}  // namespace uroce::datapath
