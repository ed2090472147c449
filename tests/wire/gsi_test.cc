// SPDX-License-Identifier: Apache-2.0
// Datagrams of the general service interface, and the MAD of capabilities.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "pipeline/wire/gsi.h"

namespace uroce::wire {
namespace {

// Which packets are datagrams of the general service interface.

// [cm.carrier]
TEST(GsiTest, WhatWeSendIsWhatWeTake) {
  const TransportHeader header = GsiHeader(Psn(5));
  EXPECT_EQ(CheckGsi(header, kMadBytes), GsiResult::kOk);
  EXPECT_EQ(header.psn, Psn(5));
  EXPECT_EQ(header.deth.source_qpn, kGsiQpn);
  EXPECT_EQ(header.pkey, 0xffff);
}

// [cm.carrier]
TEST(GsiTest, EverythingElseIsRefusedWithTheReason) {
  TransportHeader header = GsiHeader(Psn(0));
  header.deth.source_qpn = Qpn(77);  // Any may send.
  EXPECT_EQ(CheckGsi(header, kMadBytes), GsiResult::kOk);
  EXPECT_EQ(CheckGsi(header, 255), GsiResult::kBadLength);
  EXPECT_EQ(CheckGsi(header, 257), GsiResult::kBadLength);
  header.deth.qkey = 0x80010001;
  EXPECT_EQ(CheckGsi(header, kMadBytes), GsiResult::kBadQkey);
  header.opcode = Opcode::kUdSendOnlyWithImm;
  EXPECT_EQ(CheckGsi(header, kMadBytes), GsiResult::kBadOpcode);
  header.dest_qpn = Qpn(0);
  EXPECT_EQ(CheckGsi(header, kMadBytes), GsiResult::kNotGsi);
}

// The MAD by which uroce NICs know each other: where each value lies, and what is refused.

using Bytes = std::array<uint8_t, kMadBytes>;

constexpr CapabilitiesMad kQuestion = {
    .transaction_id = 0x0123456789abcdef,
    .capabilities = {.features = 0x80000001, .instance = 0xfedcba9876543210}};

CapabilitiesResult Decoded(const Bytes& bytes) {
  CapabilitiesMad mad;
  return DecodeCapabilities(bytes, mad);
}
Bytes With(CapabilitiesMad mad, size_t place, uint8_t value) {
  Bytes bytes = EncodeCapabilities(mad);
  bytes[place] = value;
  return bytes;
}

TEST(CapabilitiesMadTest, EachValueLiesWhereTheDocumentSays) {
  Bytes expected{};
  const std::vector<std::pair<size_t, std::vector<uint8_t>>> values = {
      {0, {1, 0x37, 1, 0x01}},
      {8, {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}},
      {16, {0x00, 0x10}},
      {37, {0x72, 0x6f, 0x63}},
      {40, {0, 1}},
      {44, {0x80, 0, 0, 1}},
      {48, {0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}}};
  for (const auto& [place, bytes] : values) {
    for (size_t i = 0; i < bytes.size(); ++i) expected[place + i] = bytes[i];
  }
  EXPECT_EQ(EncodeCapabilities(kQuestion), expected) << "and all that is reserved is 0";
}

TEST(CapabilitiesMadTest, WhatWasSaidIsUnderstood) {
  CapabilitiesMad answer = kQuestion;
  answer.method = MadMethod::kGetResponse;
  for (const CapabilitiesMad& mad : {kQuestion, answer}) {
    CapabilitiesMad read;
    EXPECT_EQ(DecodeCapabilities(EncodeCapabilities(mad), read), CapabilitiesResult::kOk);
    EXPECT_EQ(read, mad);
  }
}

// Of an end that does not know the class: the question comes back with another method and status.
TEST(CapabilitiesMadTest, RefusalSaysNothingOfWhatThePeerKnows) {
  CapabilitiesMad refusal = kQuestion;
  refusal.method = MadMethod::kGetResponse;
  refusal.status = 0x000c;
  CapabilitiesMad read;
  EXPECT_EQ(DecodeCapabilities(EncodeCapabilities(refusal), read), CapabilitiesResult::kOk);
  EXPECT_EQ(read.status, 0x000c);
  EXPECT_EQ(read.transaction_id, kQuestion.transaction_id);
  EXPECT_EQ(read.capabilities, Capabilities());
  EXPECT_EQ(Decoded(With(refusal, 37, 0)), CapabilitiesResult::kOk) << "whatever lies behind";
}

TEST(CapabilitiesMadTest, EverythingElseIsRefusedWithTheReason) {
  using Result = CapabilitiesResult;
  const std::vector<std::pair<Bytes, Result>> cases = {
      {With(kQuestion, 0, 2), Result::kBadBaseVersion},
      {With(kQuestion, 1, 0x36), Result::kBadClass},
      {With(kQuestion, 2, 2), Result::kBadClassVersion},
      {With(kQuestion, 3, 0x02), Result::kBadMethod},  // Set
      {With(kQuestion, 5, 0x0c), Result::kBadMethod},  // A question with a status
      {With(kQuestion, 17, 0x11), Result::kBadAttribute},
      {With(kQuestion, 26, 0x01), Result::kSegmented},
      {With(kQuestion, 39, 0x64), Result::kBadOui},
      {With(kQuestion, 41, 0), Result::kBadVersion}};
  for (const auto& [bytes, result] : cases) EXPECT_EQ(Decoded(bytes), result);
  CapabilitiesMad mad;
  const Bytes whole = EncodeCapabilities(kQuestion);
  EXPECT_EQ(DecodeCapabilities(std::span(whole).first(255), mad), Result::kBadLength);
}

TEST(CapabilitiesMadTest, LaterVersionsMaySayMore) {
  EXPECT_EQ(Decoded(With(kQuestion, 41, 2)), CapabilitiesResult::kOk);
  EXPECT_EQ(Decoded(With(kQuestion, 56, 0xff)), CapabilitiesResult::kOk);
}

TEST(CapabilitiesMadTest, TextNamesAllThatIsSaid) {
  EXPECT_EQ(ToString(kQuestion),
            "Get Capabilities tid=0123456789abcdef features=80000001 instance=fedcba9876543210");
  CapabilitiesMad refusal = kQuestion;
  refusal.method = MadMethod::kGetResponse;
  refusal.status = 0x000c;
  EXPECT_EQ(ToString(refusal), "GetResp Capabilities tid=0123456789abcdef status=000c");
}

TEST(CapabilitiesMadTest, ManagementClassesAreToldApart) {
  const Bytes bytes = EncodeCapabilities(kQuestion);
  EXPECT_EQ(ManagementClassOf(bytes), kCapabilitiesClass);
}

}  // namespace
}  // namespace uroce::wire
