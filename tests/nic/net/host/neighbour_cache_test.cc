// SPDX-License-Identifier: Apache-2.0
// The neighbour cache (RFC 4861, 7.3), step by step.
#include "nic/net/host/neighbour_cache.h"

#include <gtest/gtest.h>

#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

using Answer = NeighbourCache::Answer;
using State = NeighbourCache::State;
using Word = NeighbourCache::Word;

constexpr Nanos kStart{1'000'000'000};

class NeighbourCacheTest : public testing::Test {
 protected:
  Answer Find() { return cache.Find(hop, now, mac); }
  void Pass(Nanos duration) {
    now = now + duration;
    cache.OnDeadline(now);
  }
  void Answered(const Mac& by, bool solicited = true) {
    cache.OnWord(hop, {.mac = by, .solicited = solicited}, now);
  }
  void MakeReachable() {
    Find();
    Answered(kMacB);
    Drain();
  }
  void Drain() {
    while (cache.PollQuestion()) {
    }
    while (cache.PollChange()) {
    }
  }
  /// Questions to everybody, and to one.
  std::pair<int, int> TakeQuestions() {
    std::pair<int, int> count{0, 0};
    while (const auto question = cache.PollQuestion())
      ++(question->mac ? count.second : count.first);
    return count;
  }

  NeighbourCache cache;
  NextHop hop{G("10.0.0.2"), 0};
  Nanos now = kStart;
  Mac mac{};
};

TEST_F(NeighbourCacheTest, AnUnknownNeighbourIsAskedForAtOnce) {
  EXPECT_EQ(Find(), Answer::kAsked);
  const auto question = cache.PollQuestion();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->hop, hop);
  EXPECT_FALSE(question->mac);
}

TEST_F(NeighbourCacheTest, ASecondSeekerDoesNotAskAgain) {
  Find();
  EXPECT_EQ(Find(), Answer::kAsked);
  EXPECT_EQ(TakeQuestions(), std::pair(1, 0));
}

TEST_F(NeighbourCacheTest, AnAnswerMakesItReachableAndKnown) {
  Find();
  Answered(kMacB);
  const auto change = cache.PollChange();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->mac, kMacB);
  EXPECT_EQ(Find(), Answer::kKnown);
  EXPECT_EQ(mac, kMacB);
  EXPECT_EQ(cache.StateOf(hop), State::kReachable);
}

TEST_F(NeighbourCacheTest, ThreeQuestionsWithoutAnAnswerEndTheSearch) {
  Find();
  for (int i = 0; i < 2; ++i) Pass(NeighbourCache::kRetransmit);
  EXPECT_EQ(TakeQuestions(), std::pair(3, 0));
  EXPECT_FALSE(cache.PollChange());
  Pass(NeighbourCache::kRetransmit);
  const auto change = cache.PollChange();
  ASSERT_TRUE(change);
  EXPECT_FALSE(change->mac);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.NextDeadline(), kNever);
}

TEST_F(NeighbourCacheTest, UnsolicitedMessagesMakeNoEntry) {
  for (uint8_t i = 0; i < 100; ++i) {
    cache.OnWord({Ipv4Gid(0x0a000000u + i), 0}, {.mac = kMacB}, now);
  }
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(NeighbourCacheTest, AnUnusedEntryIsForgottenWhenItExpires) {
  MakeReachable();
  Pass(NeighbourCache::kReachable);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(TakeQuestions(), std::pair(0, 0));
}

TEST_F(NeighbourCacheTest, AnEntryInUseIsProbedWhenItExpiresAndKnownMeanwhile) {
  MakeReachable();
  const NeighbourCache::Use use = cache.Hold(hop);
  Pass(NeighbourCache::kReachable);
  EXPECT_EQ(TakeQuestions(), std::pair(0, 1));
  EXPECT_EQ(cache.StateOf(hop), State::kProbe);
  EXPECT_EQ(Find(), Answer::kKnown);
  Answered(kMacB);
  EXPECT_EQ(cache.StateOf(hop), State::kReachable);
  EXPECT_FALSE(cache.PollChange()) << "the MAC is as it was";
}

TEST_F(NeighbourCacheTest, AfterProbesInVainEverybodyIsAskedAndThenItIsSilent) {
  MakeReachable();
  const NeighbourCache::Use use = cache.Hold(hop);
  Pass(NeighbourCache::kReachable);
  for (int i = 0; i < 5; ++i) Pass(NeighbourCache::kRetransmit);
  EXPECT_EQ(TakeQuestions(), std::pair(3, 3));
  EXPECT_FALSE(cache.PollChange());
  Pass(NeighbourCache::kRetransmit);
  EXPECT_EQ(cache.StateOf(hop), State::kFailed);
  const auto change = cache.PollChange();
  ASSERT_TRUE(change);
  EXPECT_FALSE(change->mac);
}

TEST_F(NeighbourCacheTest, ASilentNeighbourInUseIsAskedForAgainAndFoundElsewhere) {
  MakeReachable();
  const NeighbourCache::Use use = cache.Hold(hop);
  Pass(NeighbourCache::kReachable);
  for (int i = 0; i < 6; ++i) Pass(NeighbourCache::kRetransmit);
  Drain();
  Pass(NeighbourCache::kFailedPause);
  EXPECT_EQ(TakeQuestions(), std::pair(1, 0));
  Answered(kMacC);
  EXPECT_EQ(cache.PollChange()->mac, kMacC);
}

TEST_F(NeighbourCacheTest, AnUnusedSilentNeighbourIsForgotten) {
  MakeReachable();
  NeighbourCache::Use use = cache.Hold(hop);
  Pass(NeighbourCache::kReachable);
  for (int i = 0; i < 6; ++i) Pass(NeighbourCache::kRetransmit);
  use.reset();
  Pass(NeighbourCache::kFailedPause);
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(NeighbourCacheTest, AnotherMacIsTakenAtOnceAndProbedWhereItIsUsed) {
  MakeReachable();
  const NeighbourCache::Use use = cache.Hold(hop);
  Answered(kMacC, false);
  EXPECT_EQ(cache.PollChange()->mac, kMacC);
  EXPECT_EQ(cache.StateOf(hop), State::kProbe);
  const auto question = cache.PollQuestion();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->mac, kMacC);
}

TEST_F(NeighbourCacheTest, AWordThatDoesNotOverrideOnlyRaisesDoubt) {  // RFC 4861, 7.2.5.
  MakeReachable();
  cache.OnWord(hop, {.mac = kMacC, .solicited = false, .overrides = false}, now);
  EXPECT_EQ(cache.StateOf(hop), State::kStale);
  EXPECT_FALSE(cache.PollChange());
  EXPECT_EQ(Find(), Answer::kKnown);
  EXPECT_EQ(mac, kMacB);
  EXPECT_EQ(cache.StateOf(hop), State::kProbe) << "who asks for a stale one has it checked";
}

TEST_F(NeighbourCacheTest, AWordWithoutAMacConfirmsButDoesNotAnswer) {
  Find();
  cache.OnWord(hop, {.mac = std::nullopt, .solicited = true}, now);
  EXPECT_EQ(Find(), Answer::kAsked);
  Answered(kMacB);
  Pass(NeighbourCache::kReachable - Nanos(1));
  cache.OnWord(hop, {.mac = std::nullopt, .solicited = true}, now);
  Pass(Nanos(1));
  EXPECT_EQ(cache.StateOf(hop), State::kReachable);
}

TEST_F(NeighbourCacheTest, AFullCacheForgetsTheOldestUnused) {
  std::vector<NeighbourCache::Use> uses;
  for (uint32_t i = 0; i < NeighbourCache::kMaxEntries; ++i) {
    const NextHop other{Ipv4Gid(0x0b000000u + i), 0};
    cache.Find(other, now, mac);
    cache.OnWord(other, {.mac = kMacB, .solicited = true}, now);
    if (i != 7) uses.push_back(cache.Hold(other));
    now = now + Nanos(1);
  }
  EXPECT_EQ(Find(), Answer::kAsked);
  EXPECT_EQ(cache.size(), NeighbourCache::kMaxEntries);
  EXPECT_FALSE(cache.StateOf({Ipv4Gid(0x0b000007u), 0}));
}

TEST_F(NeighbourCacheTest, ACacheFullOfUseTakesNoMore) {
  std::vector<NeighbourCache::Use> uses;
  for (uint32_t i = 0; i < NeighbourCache::kMaxEntries; ++i) {
    const NextHop other{Ipv4Gid(0x0b000000u + i), 0};
    cache.Find(other, now, mac);
    uses.push_back(cache.Hold(other));
  }
  EXPECT_EQ(Find(), Answer::kFull);
  uses.clear();
  for (int i = 0; i < 3; ++i) Pass(NeighbourCache::kRetransmit);
  EXPECT_EQ(Find(), Answer::kAsked);
}

TEST_F(NeighbourCacheTest, TheSameAddressOnTwoVlansIsTwoNeighbours) {
  MakeReachable();
  EXPECT_EQ(cache.Find({hop.address, 5}, now, mac), Answer::kAsked);
}

TEST_F(NeighbourCacheTest, WhenTheLinkIsBackUsedNeighboursAreProbed) {
  MakeReachable();
  const NeighbourCache::Use use = cache.Hold(hop);
  cache.OnLinkUp(now);
  EXPECT_EQ(TakeQuestions(), std::pair(0, 1));
}

}  // namespace
}  // namespace uroce::nic
