// SPDX-License-Identifier: Apache-2.0
// UC and UD queue pairs of a worker: bytes, the area in front of datagrams, addresses, drops.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kOwnQkey = 0x80000000;

/// 64 KB on each side, mapped or copied as the parameter says.
class UnreliableTest : public testing::TestWithParam<MrMode> {
 protected:
  static constexpr size_t kBytes = 64 * 1024;

  explicit UnreliableTest(wire::Service service) : service_(service) {
    if (GetParam() == MrMode::kCopied) bed_.StartCopyHelper();
  }

  void ExpectSent(Endpoint& endpoint, uint64_t wr_id, uint8_t status = 0) {
    uroce_cqe cqe;
    ASSERT_TRUE(endpoint.PollSend(cqe)) << "wr_id " << wr_id;
    EXPECT_EQ(cqe.wr_id, wr_id);
    EXPECT_EQ(cqe.status, status);
  }
  uint64_t Counted(std::atomic<uint64_t> DeviceCounters::*counter) {
    return bed_.devices[1]->Sum(counter);
  }

  const wire::Service service_;
  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0, {.service = service_});
  Endpoint& b_ = bed_.AddEndpoint(1, {.service = service_});
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, GetParam());
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, GetParam());
};

const auto kModes = testing::Values(MrMode::kMapped, MrMode::kCopied);
const auto kModeName = [](const auto& mode) {
  return mode.param == MrMode::kMapped ? "Mapped" : "Copied";
};

class UnreliableConnectionTest : public UnreliableTest {
 protected:
  UnreliableConnectionTest() : UnreliableTest(wire::Service::kUc) { bed_.Connect(a_, b_); }
};
INSTANTIATE_TEST_SUITE_P(Modes, UnreliableConnectionTest, kModes, kModeName);

TEST_P(UnreliableConnectionTest, SendsAndWritesOfManyPacketsArrive) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 5000)});
  b_.PostReceive(71, {});
  a_.PostSend({.opcode = kSend, .wr_id = 1, .list = {Testbed::Sge(from_, 9, 5000)}});
  a_.PostSend({.opcode = kWriteWithImm,
               .wr_id = 2,
               .list = {Testbed::Sge(from_, 7, 6001)},
               .remote_addr = to_.iova + 10'000,
               .rkey = to_.key,
               .imm_or_rkey = 0x1234});
  bed_.Settle();
  ExpectSent(a_, 1);
  ExpectSent(a_, 2);
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 70u);
  EXPECT_EQ(cqe.byte_len, 5000u);
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 71u);
  EXPECT_EQ(cqe.imm_or_rkey, 0x1234u);
  EXPECT_EQ(memcmp(target_.data(), source_.data() + 9, 5000), 0);
  EXPECT_EQ(memcmp(target_.data() + 10'000, source_.data() + 7, 6001), 0);
  EXPECT_EQ(bed_.devices[1]->Sum(&DeviceCounters::port_xmit_packets), 0u) << "nothing is answered";
}

TEST_P(UnreliableConnectionTest, AMessageWithoutAReceiveIsLostAndTheNextOneComes) {
  a_.PostSend({.opcode = kSend, .wr_id = 1, .list = {Testbed::Sge(from_, 0, 3000)}});
  bed_.Settle();
  ExpectSent(a_, 1);
  EXPECT_EQ(b_.qp->counters().out_of_buffer, 1u);
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 3000)});
  a_.PostSend({.opcode = kSend, .wr_id = 2, .list = {Testbed::Sge(from_, 100, 3000)}});
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(memcmp(target_.data(), source_.data() + 100, 3000), 0);
}

TEST_P(UnreliableConnectionTest, AReadStopsTheSendQueueAlone) {
  a_.PostSend({.opcode = kRead, .wr_id = 1, .list = {Testbed::Sge(to_, 0, 8)}});
  a_.PostSend({.opcode = kSend, .wr_id = 2, .list = {Testbed::Sge(from_, 0, 8)}});
  bed_.Settle();
  ExpectSent(a_, 1, kLocQpOpErr);
  ExpectSent(a_, 2, kWrFlushErr);
  EXPECT_EQ(a_.page_state(), static_cast<uint32_t>(transport::QpState::kSqe));
  a_.PostReceive(9, {Testbed::Sge(to_, 0, 100)});
  b_.PostSend({.opcode = kSend, .wr_id = 3, .list = {Testbed::Sge(from_, 0, 100)}});
  bed_.Settle();
  uroce_cqe cqe;
  EXPECT_TRUE(a_.PollReceive(cqe));
  bed_.Modify(a_, transport::QpState::kRts);
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 100)});
  a_.PostSend({.opcode = kSend, .wr_id = 4, .list = {Testbed::Sge(from_, 0, 8)}});
  bed_.Settle();
  ExpectSent(a_, 4);
  EXPECT_TRUE(b_.PollReceive(cqe));
}

class DatagramTest : public UnreliableTest {
 protected:
  static constexpr uint32_t kArea = transport::kGrhAreaBytes;

  DatagramTest() : UnreliableTest(wire::Service::kUd) {
    bed_.StartDatagrams(a_, kQkey);
    bed_.StartDatagrams(b_, kQkey);
  }

  Endpoint::Send ToB(uint64_t wr_id, uint32_t length) {
    return {.opcode = kSend,
            .wr_id = wr_id,
            .list = {Testbed::Sge(from_, 5, length)},
            .ah = to_b_,
            .remote_qpn = b_.qp->qpn().value(),
            .remote_qkey = kQkey};
  }

  uint32_t to_b_ = bed_.AddAddress(a_, 1);
};
INSTANTIATE_TEST_SUITE_P(Modes, DatagramTest, kModes, kModeName);

TEST_P(DatagramTest, BytesStandBehindTheIpHeaderAndTheCompletionSaysFromWhom) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 30), Testbed::Sge(to_, 1000, 2000)});
  Endpoint::Send send = ToB(1, 700);
  send.opcode = kSendWithImm;
  send.imm_or_rkey = 0x5678;
  a_.PostSend(send);
  bed_.Settle();
  ExpectSent(a_, 1);
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(cqe.byte_len, kArea + 700);
  EXPECT_EQ(cqe.src_qp, a_.qp->qpn().value());
  EXPECT_EQ(cqe.wc_flags, 1 | 2) << "GRH, immediate";
  EXPECT_EQ(cqe.sl, 0xa) << "IPv4";
  EXPECT_EQ(cqe.imm_or_rkey, 0x5678u);
  std::vector<uint8_t> got(target_.begin(), target_.begin() + 30);
  got.insert(got.end(), target_.begin() + 1000, target_.begin() + 1000 + 710);
  EXPECT_TRUE(std::all_of(got.begin(), got.begin() + 20, [](uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(got[20], 0x45) << "an IPv4 header";
  EXPECT_EQ(memcmp(&got[32], Testbed::AddressOf(*bed_.devices[0]).bytes.data() + 12, 4), 0);
  EXPECT_EQ(memcmp(&got[36], Testbed::AddressOf(*bed_.devices[1]).bytes.data() + 12, 4), 0);
  EXPECT_EQ(memcmp(&got[kArea], source_.data() + 5, 700), 0);
}

TEST_P(DatagramTest, AnEmptyOneHasItsAreaToo) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, kArea)});
  Endpoint::Send send = ToB(1, 0);
  send.list.clear();
  a_.PostSend(send);
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.byte_len, kArea);
  EXPECT_EQ(target_[20], 0x45);
}

TEST_P(DatagramTest, OnlyTheRightQkeyArrives) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 2000)});
  Endpoint::Send send = ToB(1, 10);
  send.remote_qkey = kQkey + 1;
  a_.PostSend(send);
  bed_.Settle();
  ExpectSent(a_, 1);
  uroce_cqe cqe;
  EXPECT_FALSE(b_.PollReceive(cqe));
  EXPECT_EQ(b_.qp->counters().qkey_viol, 1u);
  send.remote_qkey = kOwnQkey;
  a_.PostSend(send);
  bed_.Settle();
  EXPECT_TRUE(b_.PollReceive(cqe));
}

TEST_P(DatagramTest, AnAddressHandleThatIsNotOnesOwnStopsTheSendQueue) {
  const uint32_t of_other_pd = bed_.AddAddress(a_, 1, kTestPd + 1);
  bed_.session->SetAddress(of_other_pd + 1, nullptr);
  for (const uint32_t handle : {of_other_pd, of_other_pd + 1, 63u, 64u, 0xffffffffu}) {
    Endpoint::Send send = ToB(handle, 10);
    send.ah = handle;
    a_.PostSend(send);
    bed_.Settle();
    ExpectSent(a_, handle, kLocQpOpErr);
    EXPECT_EQ(a_.page_state(), static_cast<uint32_t>(transport::QpState::kSqe));
    bed_.Modify(a_, transport::QpState::kRts);
  }
  EXPECT_EQ(bed_.devices[0]->Sum(&DeviceCounters::port_xmit_packets), 0u);
}

TEST_P(DatagramTest, MoreThanAPacketIsALengthError) {
  a_.PostSend(ToB(1, 1024));
  a_.PostSend(ToB(2, 1025));
  bed_.Settle();
  ExpectSent(a_, 1);
  ExpectSent(a_, 2, kLocLenErr);
}

TEST_P(DatagramTest, OneToAnAddressThatTheDeviceLacksIsDropped) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 2000)});
  bed_.devices[1]->addresses.front().vlan_id = 7;
  a_.PostSend(ToB(1, 10));
  bed_.Settle();
  bed_.devices[1]->addresses.clear();
  a_.PostSend(ToB(2, 10));
  bed_.Settle();
  uroce_cqe cqe;
  EXPECT_FALSE(b_.PollReceive(cqe));
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_address), 2u);
}

TEST_P(DatagramTest, OneToTheOwnAddressComesBackInside) {
  Endpoint& other = bed_.AddEndpoint(0, {.service = service_});
  bed_.StartDatagrams(other, kQkey);
  other.PostReceive(70, {Testbed::Sge(to_, 0, 2000)});
  Endpoint::Send send = ToB(1, 100);
  send.ah = bed_.AddAddress(a_, 0);
  send.remote_qpn = other.qp->qpn().value();
  a_.PostSend(send);
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(other.PollReceive(cqe));
  EXPECT_EQ(memcmp(target_.data() + kArea, source_.data() + 5, 100), 0);
}

// A program that is parked is not looked at for a while, and may destroy what its works need.
TEST_P(DatagramTest, WhatWasPostedIsFoundWithoutABell) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 2000)});
  bed_.Settle();  // What it looks at in its new state.
  EXPECT_FALSE(bed_.worker->LookForSends(a_.qp.get()));
  a_.hold_bell = true;
  a_.PostSend(ToB(1, 100));
  a_.sends.Publish();
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_FALSE(b_.PollReceive(cqe));
  EXPECT_TRUE(bed_.worker->LookForSends(a_.qp.get()));
  bed_.Settle();
  EXPECT_FALSE(bed_.worker->LookForSends(a_.qp.get()));
  EXPECT_TRUE(b_.PollReceive(cqe));
}

TEST_P(DatagramTest, WhatDoesNotFitItsReceiveLeavesItForTheNext) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, kArea + 99)});
  a_.PostSend(ToB(1, 100));
  a_.PostSend(ToB(2, 99));
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.byte_len, kArea + 99);
  EXPECT_EQ(b_.qp->counters().dropped_messages, 1u);
}

}  // namespace
}  // namespace uroce::datapath
