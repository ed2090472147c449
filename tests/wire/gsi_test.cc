// SPDX-License-Identifier: Apache-2.0
// Which packets are datagrams of the general service interface.
#include "pipeline/wire/gsi.h"

#include <gtest/gtest.h>

namespace uroce::wire {
namespace {

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

}  // namespace
}  // namespace uroce::wire
