// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/scheduling.h"

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

/// Serves `schedule` until all that `sender` has, `bytes`, is sent. Returns what others sent
/// before.
int64_t SendBeside(DeficitRoundRobin& schedule, Sender& sender, int64_t bytes) {
  int64_t others_bytes = 0;
  schedule.Add(sender);
  while (bytes > 0) {
    auto* current = static_cast<Sender*>(schedule.Current());
    DeficitRoundRobin::Charge(*current, current->packet_bytes);
    (current == &sender ? bytes : others_bytes) +=
        current == &sender ? -int64_t{current->packet_bytes} : int64_t{current->packet_bytes};
  }
  schedule.Remove(sender);
  return others_bytes;
}

TEST(DeficitRoundRobinTest, ShortMessagesGoBeforeARoundOfLongOnes) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 8> steady;
  for (Sender& sender : steady) {
    sender.packet_bytes = 4000;
    schedule.Add(sender);
  }
  Sender brief;
  brief.packet_bytes = 1000;
  Serve(schedule, 100);
  for (int i = 0; i < 17; ++i) EXPECT_EQ(SendBeside(schedule, brief, 1000), 0) << i;
  // Its quantum of this round is sent: it waits for its turn once, and is fresh in the next round.
  EXPECT_GT(SendBeside(schedule, brief, 1000), 7 * kQuantumBytes / 2);
  Serve(schedule, 50);
  EXPECT_EQ(SendBeside(schedule, brief, 1000), 0);
}

TEST(DeficitRoundRobinTest, FreshFlowsAreServedInTheOrderInWhichTheyCame) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  for (Sender& sender : senders) {
    sender.packet_bytes = 1000;
    schedule.Add(sender);
  }
  for (Sender& sender : senders) {
    EXPECT_EQ(schedule.Current(), &sender);
    schedule.Remove(sender);
  }
}

// Messages of any length, one after another, get the share of a flow that always has something.
TEST(DeficitRoundRobinTest, ComingAndGoingGainsNothingWhateverTheMessages) {
  for (const int packets_of_message : {1, 3, 4, 5, 16, 40}) {
    DeficitRoundRobin schedule(kQuantumBytes);
    std::array<Sender, 4> steady;
    for (Sender& sender : steady) {
      sender.packet_bytes = 4000;
      schedule.Add(sender);
    }
    Sender comes;
    comes.packet_bytes = 4000;
    int left = 0;
    for (int i = 0; i < 100'000; ++i) {
      if (left == 0) {
        schedule.Remove(comes);
        schedule.Add(comes);
        left = packets_of_message;
      }
      auto* current = static_cast<Sender*>(schedule.Current());
      current->sent_bytes += current->packet_bytes;
      DeficitRoundRobin::Charge(*current, current->packet_bytes);
      if (current == &comes) --left;
    }
    const double share =
        static_cast<double>(comes.sent_bytes) / static_cast<double>(steady[0].sent_bytes);
    EXPECT_GT(share, 0.5) << packets_of_message;
    EXPECT_LT(share, 1.1) << packets_of_message;
  }
}

TEST(DeficitRoundRobinTest, TheEndOfARoundMayLeave) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  for (Sender& sender : senders) {
    sender.packet_bytes = 4000;
    schedule.Add(sender);
  }
  Serve(schedule, 20);  // All had a turn.
  Sender brief;
  brief.packet_bytes = 1000;
  for (int i = 0; i < 200; ++i) {
    Sender& leaving = senders[static_cast<size_t>(i) % senders.size()];
    schedule.Remove(leaving);
    Serve(schedule, 8);
    schedule.Add(leaving);
    Serve(schedule, 8);
    EXPECT_EQ(SendBeside(schedule, brief, 1000), 0) << i;  // Rounds go on.
  }
}

TEST(DeficitRoundRobinTest, ARoundEndsWhenItsLastFlowLeaves) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  for (Sender& sender : senders) {
    sender.packet_bytes = kQuantumBytes;
    schedule.Add(sender);
    Serve(schedule, 1);
    ASSERT_NE(schedule.Current(), nullptr);  // It has had its turn.
  }
  schedule.Remove(senders[1]);
  schedule.Remove(senders[0]);
  schedule.Add(senders[1]);
  EXPECT_EQ(schedule.Current(), &senders[1]) << "fresh in the new round";
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
  EXPECT_GT(other.sent_bytes - debtor.sent_bytes, 40'000);
}

TEST(DeficitRoundRobinTest, AFlowThatIsKeptGoesOnAndPaysLater) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 2> senders;
  for (Sender& sender : senders) {
    sender.packet_bytes = 4096;
    schedule.Add(sender);
  }
  const auto serve_kept = [&](int packets) {
    for (int i = 0; i < packets; ++i) {
      Flow* const current = schedule.Current();
      ASSERT_EQ(current, &senders[0]);
      Serve(schedule, 1);
      schedule.Keep(current);
    }
  };
  serve_kept(16);
  EXPECT_EQ(schedule.Current(), &senders[0]) << "it has sent four times its quantum";
  schedule.Keep(nullptr);
  EXPECT_EQ(schedule.Current(), &senders[1]);
  Serve(schedule, 16);
  EXPECT_EQ(senders[1].sent_bytes, senders[0].sent_bytes) << "rounds in which it paid";
  while (schedule.Current() != &senders[0]) Serve(schedule, 1);
  serve_kept(20);
  EXPECT_EQ(schedule.Current(), &senders[1]) << "its debt is bounded";
}

TEST(DeficitRoundRobinTest, AFreshFlowGoesBeforeOneThatIsKept) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 3> senders;
  for (Sender& sender : senders) sender.packet_bytes = 4096;
  schedule.Add(senders[0]);
  schedule.Add(senders[1]);
  Serve(schedule, 9);  // Both have sent their quantum.
  Flow* const kept = schedule.Current();
  schedule.Keep(kept);
  schedule.Add(senders[2]);
  EXPECT_EQ(schedule.Current(), &senders[2]);
  schedule.Remove(senders[2]);
  EXPECT_EQ(schedule.Current(), kept);
}

TEST(DeficitRoundRobinTest, AFlowIsAloneWhereNoOtherWaits) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 2> senders;
  for (Sender& sender : senders) sender.packet_bytes = 4096;
  schedule.Add(senders[0]);
  EXPECT_TRUE(schedule.IsAlone(senders[0]));
  Serve(schedule, 5);
  schedule.Add(senders[1]);
  EXPECT_FALSE(schedule.IsAlone(senders[0])) << "the other one is fresh";
  EXPECT_FALSE(schedule.IsAlone(senders[1]));
  schedule.Remove(senders[0]);
  EXPECT_TRUE(schedule.IsAlone(senders[1]));
}

TEST(DeficitRoundRobinTest, AFlowThatIsKeptMayLeave) {
  DeficitRoundRobin schedule(kQuantumBytes);
  std::array<Sender, 2> senders;
  for (Sender& sender : senders) schedule.Add(sender);
  schedule.Keep(schedule.Current());
  schedule.Remove(senders[0]);
  EXPECT_EQ(schedule.Current(), &senders[1]);
  schedule.Keep(schedule.Current());
  schedule.Remove(senders[1]);
  EXPECT_EQ(schedule.Current(), nullptr);
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
