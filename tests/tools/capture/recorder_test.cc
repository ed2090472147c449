// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace uroce::tools {
namespace {

/// Ethernet, IPv4 and UDP headers of a datagram to `port`.
std::vector<uint8_t> UdpFrame(uint16_t port) {
  std::vector<uint8_t> frame(60);
  frame[12] = 0x08;  // IPv4
  frame[14] = 0x45;
  frame[23] = 17;  // UDP
  frame[36] = static_cast<uint8_t>(port >> 8);
  frame[37] = static_cast<uint8_t>(port);
  return frame;
}

TEST(PacketFilterTest, EmptyExpressionLetsAllPass) {
  const auto filter = PacketFilter::Compile("");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->Matches(UdpFrame(1), 60));
}

TEST(PacketFilterTest, ExpressionDecidesByFrame) {
  const auto filter = PacketFilter::Compile("udp dst port 4791");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->Matches(UdpFrame(4791), 60));
  EXPECT_FALSE(filter->Matches(UdpFrame(4792), 60));
}

TEST(PacketFilterTest, BytesBehindTheSnapLengthDoNotMatch) {
  const auto filter = PacketFilter::Compile("udp dst port 4791");
  ASSERT_TRUE(filter.ok());
  std::vector<uint8_t> frame = UdpFrame(4791);
  frame.resize(30);
  EXPECT_FALSE(filter->Matches(frame, 60));
}

TEST(PacketFilterTest, BadExpressionNamesItself) {
  const auto filter = PacketFilter::Compile("udp and");
  ASSERT_FALSE(filter.ok());
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(filter.status().message()), testing::HasSubstr("'udp and'"));
}

}  // namespace
}  // namespace uroce::tools
