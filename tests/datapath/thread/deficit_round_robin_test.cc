// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/deficit_round_robin.h"

#include <gtest/gtest.h>

#include <array>

namespace uroce::datapath {
namespace {

constexpr int64_t kQuantumBytes = 16 * 1024;

struct Sender : Flow {
  uint32_t packet_bytes = 0;
  int64_t sent_bytes = 0;
};

void Serve(DeficitRoundRobin& schedule, int packets) {
  for (int i = 0; i < packets; ++i) {
    auto* sender = static_cast<Sender*>(schedule.Current());
    ASSERT_NE(sender, nullptr);
    sender->sent_bytes += sender->packet_bytes;
    DeficitRoundRobin::Charge(*sender, sender->packet_bytes);
  }
}

TEST(DeficitRoundRobinTest, SharesBytesWhateverThePacketSizes) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  senders[0].packet_bytes = 4200;
  senders[1].packet_bytes = 100;
  senders[2].packet_bytes = 1100;
  for (Sender& sender : senders) schedule.Add(sender);
  Serve(schedule, 100'000);
  for (const Sender& sender : senders) {
    EXPECT_NEAR(static_cast<double>(sender.sent_bytes) / static_cast<double>(senders[0].sent_bytes),
                1.0, 0.01);
  }
}

TEST(DeficitRoundRobinTest, ATurnLastsForAQuantum) {
  for (const int packets : {4, 16}) {
    DeficitRoundRobin schedule(packets * 1000);
    std::array<Sender, 2> senders;
    for (Sender& sender : senders) {
      sender.packet_bytes = 1000;
      schedule.Add(sender);
    }
    Serve(schedule, packets);
    EXPECT_EQ(senders[0].sent_bytes, packets * 1000);
    EXPECT_EQ(schedule.Current(), &senders[1]);
  }
}

TEST(DeficitRoundRobinTest, LeavingAndComingBackGainsNothing) {
  DeficitRoundRobin schedule(kQuantumBytes);
  Sender steady;
  Sender flapping;
  steady.packet_bytes = flapping.packet_bytes = 4000;
  schedule.Add(steady);
  for (int i = 0; i < 1000; ++i) {
    schedule.Add(flapping);
    Serve(schedule, 16);
    schedule.Remove(flapping);
  }
  EXPECT_LT(flapping.sent_bytes, steady.sent_bytes * 11 / 10);
  EXPECT_GT(flapping.sent_bytes, steady.sent_bytes / 2);
}

TEST(DeficitRoundRobinTest, ChargesWhileAwayAreABoundedDebt) {
  DeficitRoundRobin schedule(kQuantumBytes);
  Sender debtor;
  Sender other;
  debtor.packet_bytes = other.packet_bytes = 1000;
  for (int i = 0; i < 1000; ++i) DeficitRoundRobin::Charge(debtor, 4000);
  schedule.Add(debtor);
  schedule.Add(other);
  Serve(schedule, 100);
  EXPECT_GT(debtor.sent_bytes, 0);
}

TEST(DeficitRoundRobinTest, RemovedFlowIsNotServed) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  for (Sender& sender : senders) {
    sender.packet_bytes = 1000;
    schedule.Add(sender);
  }
  schedule.Remove(senders[0]);
  schedule.Remove(senders[0]);
  Serve(schedule, 100);
  EXPECT_EQ(senders[0].sent_bytes, 0);
  schedule.Remove(senders[1]);
  schedule.Remove(senders[2]);
  EXPECT_TRUE(schedule.empty());
  EXPECT_EQ(schedule.Current(), nullptr);
}

}  // namespace
}  // namespace uroce::datapath
