// SPDX-License-Identifier: Apache-2.0
// Tests of the judges of order: the faults that they find, and the runs that they must accept.
#include "tests/sim/order_judge.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/parties/read_results.h"

namespace uroce::sim {
namespace {

using transport::WorkOpcode;

constexpr uint32_t kMtu = 256;
constexpr wire::Psn kFirst(0xffffff);

PlannedWork Work(WorkOpcode opcode, uint64_t va, std::vector<uint8_t> bytes) {
  PlannedWork planned;
  planned.work.opcode = opcode;
  planned.work.remote_va = va;
  planned.work.length_bytes = static_cast<uint32_t>(bytes.size());
  planned.local = std::move(bytes);
  return planned;
}

/// WRITEs 300 bytes to 1000, WRITEs 8 bytes over the first of them, an atomic there, and a SEND.
Workload Plan() {
  Workload plan;
  plan.works.push_back(Work(WorkOpcode::kWrite, 1000, std::vector<uint8_t>(300, 1)));
  plan.works.push_back(Work(WorkOpcode::kWrite, 1000, std::vector<uint8_t>(8, 2)));
  plan.works.push_back(Work(WorkOpcode::kFetchAdd, 1000, std::vector<uint8_t>(8)));
  plan.works.back().expected.assign(8, 2);
  plan.works.push_back(Work(WorkOpcode::kSend, 0, std::vector<uint8_t>(300, 3)));
  return plan;
}

/// The `index`th packet of the plan, as it arrives.
struct Arriving {
  Arriving(uint32_t index, size_t size, uint8_t byte) : bytes(size, byte) {
    packet.header.psn = kFirst + index;
    packet.payload = bytes;
  }
  std::vector<uint8_t> bytes;
  wire::Packet packet;
};

std::string Place(OrderJudge& judge, uint64_t va, const Arriving& arriving) {
  const auto size = static_cast<uint32_t>(arriving.bytes.size());
  return judge.OnPlaceRemote({.va = va, .length_bytes = size}, arriving.packet);
}

TEST(OrderJudge, PlannedPacketsInTheirOrderAreRight) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  EXPECT_EQ(Place(judge, 1000, {0, 256, 1}), "");
  EXPECT_FALSE(judge.HasExecuted(0));
  EXPECT_EQ(Place(judge, 1256, {1, 44, 1}), "");
  EXPECT_TRUE(judge.HasExecuted(0));
  EXPECT_EQ(Place(judge, 1000, {2, 8, 2}), "");
  const Arriving atomic(3, 0, 0);
  EXPECT_EQ(judge.OnAtomic({.va = 1000}, 0x0202020202020202, atomic.packet), "");
  const Arriving first(4, 256, 3);
  EXPECT_EQ(judge.OnPlaceReceive({.slot = 5}, first.packet), "");
  const Arriving last(5, 44, 3);
  EXPECT_EQ(judge.OnPlaceReceive({.slot = 5, .offset_bytes = 256}, last.packet), "");
  EXPECT_TRUE(judge.HasExecuted(3));
}

TEST(OrderJudge, ALaterRequestInFrontOfAnEarlierOne) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  EXPECT_EQ(Place(judge, 1000, {0, 256, 1}), "");
  EXPECT_EQ(Place(judge, 1000, {2, 8, 2}), "a byte of request 1 before the end of request 0");
}

TEST(OrderJudge, ALaterPacketInFrontOfAnEarlierOne) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  EXPECT_EQ(Place(judge, 1256, {1, 44, 1}), "a packet out of order within request 0");
}

TEST(OrderJudge, APacketOnceMore) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  EXPECT_EQ(Place(judge, 1000, {0, 256, 1}), "");
  EXPECT_EQ(Place(judge, 1000, {0, 256, 1}), "request 0 executed twice");
}

TEST(OrderJudge, OtherBytesOrAnotherPlace) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  EXPECT_EQ(Place(judge, 1000, {0, 256, 7}), "not its bytes in request 0");
  EXPECT_EQ(Place(judge, 1001, {0, 256, 1}), "request 0 in the wrong place");
}

TEST(OrderJudge, AnAtomicThatFoundSomethingElse) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  for (const auto& [index, va, size] : {std::tuple{0u, 1000u, 256u}, {1u, 1256u, 44u}}) {
    EXPECT_EQ(Place(judge, va, {index, size, 1}), "");
  }
  EXPECT_EQ(Place(judge, 1000, {2, 8, 2}), "");
  const Arriving atomic(3, 0, 0);
  EXPECT_EQ(judge.OnAtomic({.va = 1000}, 1, atomic.packet),
            "the atomic of request 2 saw what was never there");
}

TEST(OrderJudge, AnAcknowledgementOfWhatHasNotCome) {
  const Workload plan = Plan();
  OrderJudge judge(plan, kFirst, kMtu);
  transport::TxPacket ack;
  ack.header.opcode = wire::Opcode::kAcknowledge;
  ack.header.psn = kFirst;
  EXPECT_EQ(judge.OnAnswer(ack), "an answer to request 0 before it was executed");
  EXPECT_EQ(Place(judge, 1000, {0, 256, 1}), "");
  EXPECT_EQ(judge.OnAnswer(ack), "");
}

/// A READ of 8 bytes of value 1, and a WRITE of value 2 to the first four of them.
Workload ReadAndWrite(bool fence) {
  Workload plan;
  plan.works.push_back(Work(WorkOpcode::kRead, 1000, std::vector<uint8_t>(8)));
  plan.works.back().expected.assign(8, 1);
  plan.works.push_back(Work(WorkOpcode::kWrite, 1000, std::vector<uint8_t>(4, 2)));
  plan.works.back().work.fence = fence;
  return plan;
}

TEST(ReadResults, MayShowALaterWorkInFrontOfTheNextFence) {
  const std::vector<uint8_t> before{1, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<uint8_t> after{2, 2, 2, 2, 1, 1, 1, 1};
  const std::vector<uint8_t> never{1, 1, 1, 1, 2, 1, 1, 1};
  for (const bool fence : {false, true}) {
    EXPECT_TRUE(MayRead(ReadAndWrite(fence), 0, before));
    EXPECT_EQ(MayRead(ReadAndWrite(fence), 0, after), !fence);
    EXPECT_FALSE(MayRead(ReadAndWrite(fence), 0, never));
  }
}

}  // namespace
}  // namespace uroce::sim
