// SPDX-License-Identifier: Apache-2.0
// The in-process wire: order, back-pressure, ownership.
#include "drivers/wire_port.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {
namespace {

constexpr Nanos kNow{0};

class WirePortTest : public FramePoolTest {
 protected:
  Wire Make(uint32_t depth_frames) {
    auto wire = MakeWire({.mac = {2, 0, 0, 0, 0, 1}}, {.mac = {2, 0, 0, 0, 0, 2}}, depth_frames);
    EXPECT_TRUE(wire.ok()) << wire.status();
    return *std::move(wire);
  }
};

TEST_F(WirePortTest, FramesArriveAtTheOtherEndInOrder) {
  Wire wire = Make(64);
  std::vector<rte_mbuf*> sent;
  for (uint32_t i = 0; i < 20; ++i) sent.push_back(Frame(i));
  EXPECT_EQ(wire.first->TransmitBurst(sent.data(), 20, kNow), 20);
  rte_mbuf* received[32];
  EXPECT_EQ(wire.first->ReceiveBurst(received, 32, kNow), 0);
  ASSERT_EQ(wire.second->ReceiveBurst(received, 32, kNow), 20);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(received[i], sent[i]);
    EXPECT_EQ(NumberOf(received[i]), i);
    rte_pktmbuf_free(received[i]);
  }
}

TEST_F(WirePortTest, AFullRingHoldsTheSenderBackAndDropsNothing) {
  Wire wire = Make(8);
  EXPECT_EQ(wire.second->TransmitRoom(), 8);
  std::vector<rte_mbuf*> sent;
  for (uint32_t i = 0; i < 10; ++i) sent.push_back(Frame(i));
  EXPECT_EQ(wire.second->TransmitBurst(sent.data(), 10, kNow), 8);
  EXPECT_EQ(wire.second->TransmitRoom(), 0);
  EXPECT_EQ(wire.second->TransmitBurst(sent.data() + 8, 2, kNow), 0);
  rte_mbuf* received[10];
  ASSERT_EQ(wire.first->ReceiveBurst(received, 3, kNow), 3);
  EXPECT_EQ(wire.second->TransmitRoom(), 3);
  EXPECT_EQ(wire.second->TransmitBurst(sent.data() + 8, 2, kNow), 2);
  ASSERT_EQ(wire.first->ReceiveBurst(received + 3, 10, kNow), 7);
  for (uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(NumberOf(received[i]), i);
    rte_pktmbuf_free(received[i]);
  }
}

TEST_F(WirePortTest, FramesStillOnTheWireAreFreedWithItsEnds) {
  Wire wire = Make(8);
  rte_mbuf* frame = Frame(1);
  EXPECT_EQ(wire.first->TransmitBurst(&frame, 1, kNow), 1);
  wire.first.reset();
  EXPECT_EQ(rte_mempool_avail_count(pool()), kFrames - 1);
  wire.second.reset();
}

TEST_F(WirePortTest, TwoThreadsMayDriveItsEnds) {
  constexpr uint32_t kCount = 200'000;
  Wire wire = Make(64);
  std::thread sender([&] {
    for (uint32_t i = 0; i < kCount;) {
      rte_mbuf* frame = Frame(i++);
      while (wire.first->TransmitBurst(&frame, 1, kNow) == 0) std::this_thread::yield();
    }
  });
  uint32_t expected = 0;
  while (expected < kCount) {
    rte_mbuf* received[32];
    const uint16_t count = wire.second->ReceiveBurst(received, 32, kNow);
    if (count == 0) std::this_thread::yield();
    for (uint16_t i = 0; i < count; ++i) {
      ASSERT_EQ(NumberOf(received[i]), expected++);
      rte_pktmbuf_free(received[i]);
    }
  }
  sender.join();
}

TEST_F(WirePortTest, InfoIsWhatWasConfiguredWithTheLinkUp) {
  Wire wire = Make(8);
  const PortInfo info = wire.second->Info();
  EXPECT_EQ(info.mac, (Mac{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(info.mtu_bytes, 9000u);
  EXPECT_TRUE(info.link_up);
  EXPECT_EQ(info.driver, "wire");
  EXPECT_EQ(info.ifindex, 0);
  EXPECT_TRUE(wire.second->wakes_itself());
}

TEST_F(WirePortTest, ADepthThatIsNoRingIsAnError) {
  EXPECT_FALSE(MakeWire({}, {}, 0).ok());
  EXPECT_FALSE(MakeWire({}, {}, kMaxWireDepthFrames + 1).ok());
}

TEST(LocalMacTest, IsUnicastLocallyAdministeredAndStable) {
  for (uint32_t index = 0; index < 1000; ++index) {
    EXPECT_EQ(LocalMac("uroce0", index)[0] & 3, 2) << index;
  }
  EXPECT_EQ(LocalMac("uroce0", 0), LocalMac("uroce0", 0));
  EXPECT_NE(LocalMac("uroce0", 0), LocalMac("uroce0", 1));
  EXPECT_NE(LocalMac("uroce0", 0), LocalMac("uroce1", 0));
}

}  // namespace
}  // namespace uroce::drivers
