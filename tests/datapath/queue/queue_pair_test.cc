// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/queue_pair.h"

#include <gtest/gtest.h>

#include <map>

#include "pipeline/datapath/worker/objects.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {
namespace {

TEST(ListMembershipTest, EachListIsEnteredAndLeftOnce) {
  ListMembership lists;
  EXPECT_FALSE(lists.Leave(WorkerList::kHeld));
  EXPECT_TRUE(lists.Enter(WorkerList::kHeld));
  EXPECT_FALSE(lists.Enter(WorkerList::kHeld));
  EXPECT_TRUE(lists.Has(WorkerList::kHeld));
  EXPECT_TRUE(lists.Leave(WorkerList::kHeld));
  EXPECT_FALSE(lists.Leave(WorkerList::kHeld));
  EXPECT_FALSE(lists.Has(WorkerList::kHeld));
}

TEST(ListMembershipTest, ListsAreIndependent) {
  constexpr WorkerList kAll[] = {WorkerList::kTouched, WorkerList::kReceived, WorkerList::kHeld,
                                 WorkerList::kPostponed, WorkerList::kRetried};
  for (const WorkerList list : kAll) {
    ListMembership lists;
    EXPECT_TRUE(lists.Enter(list));
    for (const WorkerList other : kAll) EXPECT_EQ(lists.Has(other), other == list);
  }
}

// Going through the table of queue pairs piece by piece.

/// The table never looks into a queue pair: an address where one could be is enough.
QueuePair* Named(uint32_t number) {
  return reinterpret_cast<QueuePair*>(uintptr_t{number} * UROCE_LINE);
}

class QpnTableTest : public testing::Test {
 protected:
  /// How often each queue pair is shown. Each piece is as small as `piece` says.
  std::map<QueuePair*, int> Walk(QpnTable::Piece piece) {
    std::map<QueuePair*, int> shown;
    size_t position = 0;
    do {
      size_t in_piece = 0;
      position = table_.ForSome(position, piece, [&](QueuePair& qp) {
        ++shown[&qp];
        ++in_piece;
      });
      EXPECT_LE(in_piece, std::min(piece.most_queue_pairs, piece.most_slots));
      ++pieces_;
    } while (position != 0);
    return shown;
  }

  QpnTable table_;
  int pieces_ = 0;
};

TEST_F(QpnTableTest, EachQueuePairIsInOnePiece) {
  constexpr uint32_t kCount = 1000;
  for (uint32_t i = 1; i <= kCount; ++i) table_.Insert(Qpn(i * 7919 % 0xffffff), Named(i));
  const std::map<QueuePair*, int> shown = Walk({.most_queue_pairs = 32, .most_slots = 1 << 20});
  EXPECT_EQ(shown.size(), kCount);
  for (const auto& [qp, times] : shown) EXPECT_EQ(times, 1);
  EXPECT_EQ(pieces_, 32);
}

// A table that was large once has many empty slots.
TEST_F(QpnTableTest, APieceEndsAfterSoManySlotsToo) {
  for (uint32_t i = 1; i <= 1000; ++i) table_.Insert(Qpn(i), Named(i));
  for (uint32_t i = 1; i < 1000; ++i) table_.Erase(Qpn(i));
  EXPECT_EQ(Walk({.most_queue_pairs = 32, .most_slots = 256}),
            (std::map<QueuePair*, int>{{Named(1000), 1}}));
  EXPECT_EQ(pieces_, 2048 / 256);
}

TEST_F(QpnTableTest, AnEmptyTableShowsNothing) {
  EXPECT_TRUE(Walk({.most_queue_pairs = 1, .most_slots = 16}).empty());
}

}  // namespace
}  // namespace uroce::datapath
