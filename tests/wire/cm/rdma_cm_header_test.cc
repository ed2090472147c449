// SPDX-License-Identifier: Apache-2.0
// The head of private data, and service IDs.
#include "pipeline/wire/cm/rdma_cm_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace uroce::wire {
namespace {

using Bytes = std::array<uint8_t, kRdmaCmHeaderBytes>;

Gid Ipv4(uint8_t last) { return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}}; }
Gid Ipv6(uint8_t last) { return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}; }

Bytes Encoded(const RdmaCmHeader& header) {
  Bytes bytes{};
  EncodeRdmaCmHeader(header, bytes);
  return bytes;
}

// [cm.header]
TEST(RdmaCmHeaderTest, Ipv4LiesInTheLastFourBytes) {
  const RdmaCmHeader header{.source_port = 0xb565, .source = Ipv4(1), .destination = Ipv4(2)};
  const Bytes bytes = Encoded(header);
  EXPECT_EQ(bytes, (Bytes{0x00, 0x40, 0xb5, 0x65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 10, 0,
                          0,    1,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0,  2}));
  RdmaCmHeader decoded;
  ASSERT_EQ(DecodeRdmaCmHeader(bytes, decoded), RdmaCmHeaderResult::kOk);
  EXPECT_EQ(decoded, header);
}

// [cm.header]
TEST(RdmaCmHeaderTest, Ipv6TakesAllSixteenBytes) {
  const RdmaCmHeader header{.source_port = 1, .source = Ipv6(1), .destination = Ipv6(2)};
  const Bytes bytes = Encoded(header);
  EXPECT_EQ(bytes[1], 0x60);
  EXPECT_EQ(bytes[4], 0xfd);
  RdmaCmHeader decoded;
  ASSERT_EQ(DecodeRdmaCmHeader(bytes, decoded), RdmaCmHeaderResult::kOk);
  EXPECT_EQ(decoded, header);
}

// [cm.header.version]
TEST(RdmaCmHeaderTest, OtherVersionsAreRefused) {
  RdmaCmHeader decoded;
  Bytes bytes = Encoded({.source_port = 1, .source = Ipv4(1), .destination = Ipv4(2)});
  EXPECT_EQ(DecodeRdmaCmHeader(std::span(bytes).first(35), decoded), RdmaCmHeaderResult::kTooShort);
  bytes[0] = 0x0f;  // A minor version changes nothing.
  EXPECT_EQ(DecodeRdmaCmHeader(bytes, decoded), RdmaCmHeaderResult::kOk);
  bytes[0] = 0x10;
  EXPECT_EQ(DecodeRdmaCmHeader(bytes, decoded), RdmaCmHeaderResult::kBadVersion);
  bytes[0] = 0;
  bytes[1] = 0x50;
  EXPECT_EQ(DecodeRdmaCmHeader(bytes, decoded), RdmaCmHeaderResult::kBadIpVersion);
}

// [cm.service]
TEST(RdmaCmHeaderTest, AServiceIdIsPortSpaceAndPort) {
  EXPECT_EQ(ServiceIdOf({PortSpace::kTcp, 7174}), 0x0000000001061c06u);
  EXPECT_EQ(ServiceIdOf({PortSpace::kUdp, 7174}), 0x0000000001111c06u);
  EXPECT_EQ(ServiceIdOf({PortSpace::kIb, 1}), 0x00000000013f0001u);
  for (const PortSpace space : {PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIb}) {
    EXPECT_EQ(ServiceOf(ServiceIdOf({space, 4791})), (RdmaCmService{space, 4791}));
  }
  EXPECT_EQ(ServiceOf(0x0000000100061c06u), std::nullopt);
  EXPECT_EQ(ServiceOf(0x1000000001061c06u), std::nullopt);
  EXPECT_EQ(ServiceOf(0x0000000000021c06u), std::nullopt);
}

}  // namespace
}  // namespace uroce::wire
