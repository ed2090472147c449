// SPDX-License-Identifier: Apache-2.0
// Messages of the connection manager to MADs and back. Where each value lies is checked against
// what Linux sent in tests/golden; here each field against its neighbours.
#include "pipeline/wire/cm/codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/wire/cm/to_string.h"
#include "tests/wire/cm/values.h"

namespace uroce::wire {
namespace {

using Mad = std::array<uint8_t, kMadBytes>;

Mad Rtu() {
  return EncodeCm({.transaction_id = 7,
                   .body = CmRtu{.local_comm_id = CommId(1), .remote_comm_id = CommId(2)}});
}

CmDecodeResult Decoded(std::span<const uint8_t> mad) {
  CmMessage message;
  return DecodeCm(mad, message);
}

CmDecodeResult DecodedWith(size_t offset, uint8_t value) {
  Mad mad = Rtu();
  mad[offset] = value;
  return Decoded(mad);
}

// [cm.layout]
TEST(CmCodecTest, EveryMessageOfAllValuesComesBackAsItWas) {
  CmValues values(1);
  for (int round = 0; round < 2000; ++round) {
    const CmMessage message = values.Message(round % kCmAttributeCount);
    CmMessage again;
    ASSERT_EQ(DecodeCm(EncodeCm(message), again), CmDecodeResult::kOk);
    ASSERT_EQ(message, again) << ToString(message) << " " << ToString(again);
  }
}

// [cm.layout]
TEST(CmCodecTest, FieldsThatLinuxSendsAsZeroLieWhereTheStandardHasThem) {
  CmReq req{.local_comm_id = CommId(0x01020304),
            .vendor_id = 0xa1a2a3,
            .local_qkey = 0xb1b2b3b4,
            .local_eecn = 0xc1c2c3,
            .remote_eecn = 0xd1d2d3};
  req.rdc_exists = true;
  req.srq = true;
  req.extended_transport = 1;
  req.transport = CmTransport::kExtended;
  req.end_to_end_flow_control = true;
  const Mad mad = EncodeCm({.body = req});
  const auto at = [&mad](size_t offset) { return static_cast<int>(mad[24 + offset]); };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(5), 0xa1);
  EXPECT_EQ(at(7), 0xa3);
  EXPECT_EQ(at(28), 0xb1);
  EXPECT_EQ(at(36), 0xc1);
  EXPECT_EQ(at(40), 0xd1);
  EXPECT_EQ(at(43), 0x07);
  EXPECT_EQ(at(50), 0x08);
  EXPECT_EQ(at(51), 0x09);
}

// [cm.layout]
TEST(CmCodecTest, AValueThatIsTooWideSpoilsNoNeighbour) {
  CmReq req{
      .local_comm_id = CommId(1), .retry_count = 0xff, .path_mtu = 0xff, .rnr_retry_count = 0xff};
  CmMessage again;
  ASSERT_EQ(DecodeCm(EncodeCm({.body = req}), again), CmDecodeResult::kOk);
  const auto& decoded = std::get<CmReq>(again.body);
  EXPECT_EQ(decoded.retry_count, 7);
  EXPECT_EQ(decoded.local_cm_response_timeout, 0);
  EXPECT_EQ(decoded.path_mtu, 15);
  EXPECT_EQ(decoded.rnr_retry_count, 7);
  EXPECT_FALSE(decoded.rdc_exists);
}

// [cm.mad]
TEST(CmCodecTest, AMadIsRefusedWithTheReason) {
  const Mad rtu = Rtu();
  EXPECT_EQ(Decoded(rtu), CmDecodeResult::kOk);
  EXPECT_EQ(Decoded(std::span(rtu).first(255)), CmDecodeResult::kBadLength);
  EXPECT_EQ(Decoded({}), CmDecodeResult::kBadLength);
  EXPECT_EQ(DecodedWith(0, 2), CmDecodeResult::kBadBaseVersion);
  EXPECT_EQ(DecodedWith(1, 3), CmDecodeResult::kNotCm);
  EXPECT_EQ(DecodedWith(2, 1), CmDecodeResult::kBadClassVersion);
  EXPECT_EQ(DecodedWith(3, 1), CmDecodeResult::kBadMethod);
  EXPECT_EQ(DecodedWith(3, 0x83), CmDecodeResult::kBadMethod);
  EXPECT_EQ(DecodedWith(17, 0x0f), CmDecodeResult::kUnknownAttribute);
  EXPECT_EQ(DecodedWith(17, 0x1b), CmDecodeResult::kUnknownAttribute);
  EXPECT_EQ(DecodedWith(16, 0x01), CmDecodeResult::kUnknownAttribute);
}

// [cm.mad.ids]
TEST(CmCodecTest, ASenderWithoutANumberIsRefusedButInARej) {
  EXPECT_EQ(DecodedWith(27, 0), CmDecodeResult::kZeroCommId);
  EXPECT_EQ(Decoded(EncodeCm({.body = CmRej{.remote_comm_id = CommId(5)}})), CmDecodeResult::kOk);
  EXPECT_EQ(Decoded(EncodeCm({.body = CmSidrReq{}})), CmDecodeResult::kZeroCommId);
  EXPECT_EQ(Decoded(EncodeCm({.body = CmReq{}})), CmDecodeResult::kZeroCommId);
}

// [cm.mad.ids]
TEST(CmCodecTest, AnAnswerWithoutAnIdIsRefused) {
  EXPECT_EQ(Decoded(EncodeCm({.body = CmDreq{.local_comm_id = CommId(5)}})),
            CmDecodeResult::kZeroCommId);
  EXPECT_EQ(Decoded(EncodeCm({.body = CmRep{.local_comm_id = CommId(5)}})),
            CmDecodeResult::kZeroCommId);
}

// [cm.mad.info]
TEST(CmCodecTest, MoreAdditionalInformationThanFitsIsRefused) {
  CmRej rej{.local_comm_id = CommId(1), .remote_comm_id = CommId(5), .info_bytes = 72};
  EXPECT_EQ(Decoded(EncodeCm({.body = rej})), CmDecodeResult::kOk);
  rej.info_bytes = 73;
  EXPECT_EQ(Decoded(EncodeCm({.body = rej})), CmDecodeResult::kBadInfo);
  EXPECT_EQ(Decoded(EncodeCm({.body = CmSidrRep{.request_id = CommId(1), .info_bytes = 73}})),
            CmDecodeResult::kBadInfo);
}

TEST(CmCodecTest, MessagesReadAsText) {
  EXPECT_EQ(ToString(CmMessage{.body = CmReq{.local_comm_id = CommId(0x6af7cd08),
                                             .service_id = 0x1061c06,
                                             .local_qpn = Qpn(0x11),
                                             .starting_psn = Psn(0xe7fa0c)}}),
            "REQ id=6af7cd08 service=0000000001061c06 qpn=000011 psn=e7fa0c");
  EXPECT_EQ(ToString(CmMessage{.body = CmRej{.remote_comm_id = CommId(5),
                                             .reason = RejReason::kInvalidServiceId}}),
            "REJ id=00000000 remote=00000005 about=REQ reason=8");
  EXPECT_EQ(ToString(CmMessage{.body = CmSidrRep{.request_id = CommId(1), .qkey = 0x1234567}}),
            "SIDR_REP id=00000001 status=0 qpn=000000 qkey=01234567");
  EXPECT_EQ(ToString(CmDecodeResult::kBadInfo), "BadInfo");
}

}  // namespace
}  // namespace uroce::wire
