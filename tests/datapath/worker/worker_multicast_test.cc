// SPDX-License-Identifier: Apache-2.0
// Datagrams to groups: who gets a copy, on whatever worker, and who does not.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kArea = transport::kGrhAreaBytes;
constexpr uint32_t kLength = 1000;
constexpr size_t kBytes = 64 * 1024;
constexpr Mac kGroupMac{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};

Gid Ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
}
const Gid kGroup = Ipv4(239, 1, 2, 3);

/// A sender on the first device, receivers on both, owned by the first and the last worker.
class MulticastTest : public testing::TestWithParam<uint32_t> {
 protected:
  MulticastTest() : bed_((TestPool(), std::array<drivers::Port*, 2>{}), GetParam()) {
    for (Endpoint* end : {&sender_, &near_, &far_, &far_last_}) bed_.StartDatagrams(*end, kQkey);
    Path path;
    path.source_mac = bed_.devices[0]->mac;
    path.destination_mac = kGroupMac;
    path.source = Testbed::AddressOf(*bed_.devices[0]);
    path.destination = kGroup;
    group_ = std::make_unique<AddressVector>(kTestPd, path);
    bed_.session->MakeAddressTable(64);
    bed_.session->SetAddress(kHandle, group_.get());
  }
  ~MulticastTest() override { bed_.RemoveEndpoints(); }

  void Attach(Endpoint& end) {
    const_cast<Device*>(end.qp->config().device)
        ->groups[kGroup]
        .push_back({end.qp.get(), end.worker});
  }
  void PostReceive(Endpoint& end, uint64_t offset) {
    end.PostReceive(offset, {Testbed::Sge(to_, offset, kArea + kLength)});
  }
  void Send(uint32_t qkey = kQkey) {
    sender_.PostSend({.opcode = kSend,
                      .list = {Testbed::Sge(from_, 0, kLength)},
                      .ah = kHandle,
                      .remote_qpn = kMulticastQpn.value(),
                      .remote_qkey = qkey});
    bed_.Settle();
  }
  /// Whether `end` has got the datagram where it wanted it.
  bool Got(Endpoint& end) {
    uroce_cqe cqe;
    if (!end.PollReceive(cqe)) return false;
    EXPECT_EQ(cqe.status, 0);
    EXPECT_EQ(cqe.byte_len, kArea + kLength);
    EXPECT_EQ(cqe.src_qp, sender_.qp->qpn().value());
    const uint8_t* area = target_.data() + cqe.wr_id;
    EXPECT_EQ(memcmp(area + 36, kGroup.bytes.data() + 12, 4), 0) << "the group in its IP header";
    return memcmp(area + kArea, source_.data(), kLength) == 0;
  }
  uint64_t Counted(int device, std::atomic<uint64_t> DeviceCounters::*counter) {
    return bed_.devices[device]->Sum(counter);
  }

  static constexpr uint32_t kHandle = 5;
  static constexpr Endpoint::Limits kDatagrams{.service = wire::Service::kUd};
  Testbed bed_;
  Endpoint& sender_ = bed_.AddEndpoint(0, kDatagrams, 0);
  Endpoint& near_ = bed_.AddEndpoint(0, kDatagrams, GetParam() - 1);
  Endpoint& far_ = bed_.AddEndpoint(1, kDatagrams, 0);
  Endpoint& far_last_ = bed_.AddEndpoint(1, kDatagrams, GetParam() - 1);
  std::unique_ptr<AddressVector> group_;
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

INSTANTIATE_TEST_SUITE_P(Workers, MulticastTest, testing::Values(1u, 2u));

// [10.multicast.copies]
TEST_P(MulticastTest, EveryMemberOfEveryWorkerGetsACopy) {
  Attach(far_);
  Attach(far_last_);
  PostReceive(far_, 0);
  PostReceive(far_last_, 2000);
  Send();
  EXPECT_TRUE(Got(far_));
  EXPECT_TRUE(Got(far_last_));
  EXPECT_EQ(Counted(0, &DeviceCounters::multicast_xmit_packets), 1u);
  EXPECT_EQ(Counted(1, &DeviceCounters::multicast_rcv_packets), 1u);
}

// [10.multicast.loop]
TEST_P(MulticastTest, MembersOnTheSendersDeviceGetOneAndTheSenderNone) {
  Attach(sender_);
  Attach(near_);
  PostReceive(sender_, 0);
  PostReceive(near_, 2000);
  Send();
  EXPECT_TRUE(Got(near_));
  uroce_cqe cqe;
  EXPECT_FALSE(sender_.PollReceive(cqe));
}

// [10.multicast.qkey 10.qkey]
TEST_P(MulticastTest, WhoIsNoMemberOrHasAnotherQkeyGetsNothing) {
  Attach(far_);
  PostReceive(far_, 0);
  PostReceive(far_last_, 2000);
  Send(kQkey + 1);
  uroce_cqe cqe;
  EXPECT_FALSE(far_.PollReceive(cqe));
  EXPECT_EQ(far_.qp->counters().qkey_viol, 1u);
  Send();
  EXPECT_TRUE(Got(far_));
  EXPECT_FALSE(far_last_.PollReceive(cqe));
}

// [10.multicast.turn]
// Else some ports with a group of 64 each keep all programs of a worker waiting for long.
TEST_P(MulticastTest, ATurnMakesABoundedNumberOfCopiesAndNoneIsLost) {
  constexpr int kMembers = 64, kPackets = 32;
  constexpr uint32_t kMostOfTurn = 512 + kMembers;  // The last packet goes to all its members.
  std::vector<Endpoint*> members;
  for (int i = 0; i < kMembers; ++i) {
    members.push_back(&bed_.AddEndpoint(1, kDatagrams, GetParam() - 1));
    bed_.StartDatagrams(*members.back(), kQkey);
    Attach(*members.back());
    for (int k = 0; k < kPackets; ++k) PostReceive(*members.back(), 0);
  }
  sender_.hold_bell = true;
  for (int i = 0; i < kPackets; ++i) Send();
  sender_.RingBell();
  std::vector<int> got(kMembers);
  const auto take = [&] {
    uint32_t taken = 0;
    uroce_cqe cqe;
    for (int i = 0; i < kMembers; ++i) {
      for (; members[i]->PollReceive(cqe); ++got[i]) ++taken;
    }
    return taken;
  };
  uint32_t most = 0;
  for (int turn = 0; turn < 20; ++turn) {
    bed_.Turn();
    most = std::max(most, take());
  }
  EXPECT_GT(most, kMostOfTurn / 2) << "it is measured";
  EXPECT_LE(most, kMostOfTurn);
  bed_.Settle();
  take();
  EXPECT_EQ(got, std::vector<int>(kMembers, kPackets));
}

// [10.multicast.other]
TEST_P(MulticastTest, AGroupWithoutMembersHereIsAnotherHostsFrame) {
  PostReceive(far_, 0);
  Send();
  EXPECT_EQ(Counted(1, &DeviceCounters::rx_not_roce), 1u);
  EXPECT_EQ(Counted(1, &DeviceCounters::multicast_rcv_packets), 0u);
}

TEST_P(MulticastTest, AMemberThatWaitsForItsMemoryGetsItAllTheSame) {
  bed_.StartCopyHelper();
  std::vector<uint8_t> copied_bytes(kBytes);
  MemoryRegion& copied = bed_.Register(copied_bytes.data(), kBytes, kAllAccess, MrMode::kCopied);
  Attach(far_);
  for (int i = 0; i < 4; ++i) {
    far_.PostReceive(i, {Testbed::Sge(copied, i * 2000, kArea + kLength)});
  }
  sender_.hold_bell = true;
  for (int i = 0; i < 4; ++i) Send();
  sender_.RingBell();
  bed_.Settle();
  uroce_cqe cqe;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(far_.PollReceive(cqe)) << i;
    EXPECT_EQ(memcmp(copied_bytes.data() + i * 2000 + kArea, source_.data(), kLength), 0);
  }
}

// [10.multicast.state]
TEST_P(MulticastTest, AMemberInErrorIsPassedOver) {
  Attach(far_);
  Attach(far_last_);
  bed_.Modify(far_, transport::QpState::kErr);
  bed_.Settle();
  PostReceive(far_last_, 2000);
  Send();
  EXPECT_TRUE(Got(far_last_));
  EXPECT_EQ(Counted(1, &DeviceCounters::rx_bad_state), 1u);
}

}  // namespace
}  // namespace uroce::datapath
