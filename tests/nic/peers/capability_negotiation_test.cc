// SPDX-License-Identifier: Apache-2.0
// CapabilityNegotiation with peers under a script: uses, MADs and time go in; MADs and changes come
// out.
#include "nic/peers/capability_negotiation.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace uroce::nic::peers {
namespace {

using wire::Capabilities;
using wire::CapabilitiesMad;
using wire::MadMethod;

constexpr uint32_t kKnows = Capabilities::kSelectiveRepeat;
constexpr Capabilities kSelf{.features = kKnows, .instance = 0x5e1f};

Gid Address(uint32_t number) {
  Gid gid;
  gid.bytes[0] = 0xfd;
  for (size_t i = 0; i < 4; ++i) gid.bytes[12 + i] = static_cast<uint8_t>(number >> (24 - 8 * i));
  return gid;
}
Key Path(uint32_t remote = 2) {
  return {.device = 1, .local = Address(1), .remote = Address(remote)};
}

uint64_t Count() {
  static uint64_t count = 0;
  return count += 2;
}

class CapabilityNegotiationTest : public testing::Test {
 protected:
  explicit CapabilityNegotiationTest(uint32_t most_peers = 4096)
      : negotiation_({.features = {0, kKnows},
                      .instance = kSelf.instance,
                      .secret = 7,
                      .most_peers = most_peers},
                     Count) {}

  // ---- time ----
  /// Milliseconds since the start; deadlines on the way are met.
  void At(int64_t ms) {
    const Nanos until(ms * 1'000'000);
    while (negotiation_.NextDeadline() <= until) {
      now_ = std::max(now_, negotiation_.NextDeadline());
      negotiation_.OnDeadline(now_);
    }
    now_ = until;
  }

  // ---- what goes in ----
  Holder Use(const Key& key = Path(), uint32_t user = 0) {
    Holder holder = negotiation_.Use(key, user, now_);
    negotiation_.OnDeadline(now_);
    return holder;
  }
  void Hear(const CapabilitiesMad& mad, const Key& from = Path()) {
    negotiation_.OnMad(from, wire::EncodeCapabilities(mad), now_);
    negotiation_.OnDeadline(now_);
  }
  void HearAnswer(uint64_t transaction_id, const Capabilities& peer, const Key& from = Path()) {
    Hear(
        {.method = MadMethod::kGetResponse, .transaction_id = transaction_id, .capabilities = peer},
        from);
  }
  void HearQuestion(const Capabilities& peer, const Key& from = Path()) {
    Hear({.transaction_id = 99, .capabilities = peer}, from);
  }
  /// The path in use, and its peer agreed at the time 0.
  Holder Agreed() {
    Holder holder = Use();
    HearAnswer(Asked(), kPeer);
    EXPECT_EQ(Told(), true);
    return holder;
  }

  // ---- what comes out ----
  std::vector<Datagram> Sent() {
    std::vector<Datagram> all;
    Datagram datagram;
    while (negotiation_.PollDatagram(datagram)) all.push_back(datagram);
    return all;
  }
  size_t Questions() { return Sent().size(); }
  /// The transaction id of the one question that was sent.
  uint64_t Asked() {
    const std::vector<Datagram> sent = Sent();
    EXPECT_EQ(sent.size(), 1u);
    if (sent.empty()) return 0;
    EXPECT_EQ(sent[0].mad.method, MadMethod::kGet);
    EXPECT_EQ(sent[0].mad.capabilities, kSelf);
    return sent[0].mad.transaction_id;
  }
  /// The one change of live queue pairs; nothing: none.
  std::optional<bool> Told() {
    Change change;
    if (!negotiation_.PollChange(change)) return std::nullopt;
    const bool told = change.selective_repeat;
    EXPECT_FALSE(negotiation_.PollChange(change));
    return told;
  }
  const Counters& counters() const { return negotiation_.counters(); }

  static constexpr Capabilities kPeer{.features = kKnows, .instance = 0xbeef};
  static constexpr Capabilities kPeerWithout{.features = 0, .instance = 0xdead};

  Nanos now_{0};
  CapabilityNegotiation negotiation_;
};

TEST_F(CapabilityNegotiationTest, PeerThatAnswersAgreesAtOnce) {
  const Holder holder = Use();
  EXPECT_FALSE(holder->selective_repeat());
  const uint64_t asked = Asked();
  At(1);
  HearAnswer(asked, kPeer);
  EXPECT_TRUE(holder->selective_repeat());
  EXPECT_EQ(Told(), true);
  EXPECT_EQ(holder->peer.instance, kPeer.instance);
}

TEST_F(CapabilityNegotiationTest, SecondConnectionFindsWhatTheFirstHasLearnt) {
  const Holder first = Agreed();
  EXPECT_TRUE(Use()->selective_repeat());
  EXPECT_EQ(Questions(), 0u) << "just asked";
}

TEST_F(CapabilityNegotiationTest, PeerWithItSwitchedOffDoesNotAgree) {
  const Holder holder = Use();
  HearAnswer(Asked(), kPeerWithout);
  EXPECT_EQ(holder->state, State::kAnswered);
  EXPECT_FALSE(holder->selective_repeat());
  EXPECT_EQ(Told(), std::nullopt);
  At(63'999);
  EXPECT_EQ(Questions(), 0u);
  At(64'000);
  EXPECT_EQ(Questions(), 1u);
}

// 3 MADs at first, then one after 4, 8, 16, 32, 64, 64 ... seconds.
TEST_F(CapabilityNegotiationTest, SilentPeerIsHardlyEverAsked) {
  const Holder holder = Use();
  EXPECT_EQ(Questions(), 1u);
  At(9);
  EXPECT_EQ(Questions(), 0u);
  At(10);
  EXPECT_EQ(Questions(), 1u);
  At(50);
  EXPECT_EQ(Questions(), 1u);
  EXPECT_EQ(holder->state, State::kUnknown);
  At(210);
  EXPECT_EQ(Questions(), 0u);
  EXPECT_EQ(holder->state, State::kSilent);
  At(61'000);
  EXPECT_EQ(Questions(), 4u);
  At(600'000);
  EXPECT_LE(Questions(), 9u) << "about one a minute";
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(CapabilityNegotiationTest, PeerThatRefusesIsAskedOnceAMinute) {
  const Holder holder = Use();
  CapabilitiesMad refusal;
  refusal.method = MadMethod::kGetResponse;
  refusal.status = 0x000c;
  refusal.transaction_id = Asked();
  Hear(refusal);
  EXPECT_EQ(holder->state, State::kRefused);
  EXPECT_FALSE(holder->selective_repeat());
  At(63'999);
  EXPECT_EQ(Questions(), 0u);
  At(128'000);
  EXPECT_LE(Questions(), 2u);
}

// A program that connects again and again does not cause a flood of questions to a standard peer.
TEST_F(CapabilityNegotiationTest, ConnectionsThatComeAndGoDoNotMakeManyQuestions) {
  for (int ms = 0; ms < 60'000; ms += 10) {
    At(ms);
    Use();
  }
  EXPECT_LE(Questions(), 60u) << "of 6,000 connections within a minute";
  EXPECT_EQ(negotiation_.size(), 1u);
}

TEST_F(CapabilityNegotiationTest, AgreedPeerIsAskedEveryTwoSeconds) {
  const Holder holder = Agreed();
  for (int second = 2; second <= 20; second += 2) {
    At(second * 1000);
    HearAnswer(Asked(), kPeer);
  }
  EXPECT_TRUE(holder->selective_repeat());
  EXPECT_EQ(holder->restarts, 0u);
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(CapabilityNegotiationTest, PeerThatDoesNotUnderstandAnyMoreIsNoticed) {
  const Holder holder = Agreed();
  At(3399);
  EXPECT_EQ(Questions(), 3u);
  EXPECT_TRUE(holder->selective_repeat());
  At(3400);
  EXPECT_FALSE(holder->selective_repeat());
  EXPECT_EQ(Told(), false);
  EXPECT_EQ(counters().fell_silent, 1u);
  EXPECT_FALSE(Use()->selective_repeat());
}

TEST_F(CapabilityNegotiationTest, LostQuestionsAreRepeatedBeforeAnyoneIsTold) {
  const Holder holder = Agreed();
  At(2'600);
  const std::vector<Datagram> sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].mad.transaction_id, sent[2].mad.transaction_id) << "any answer will do";
  HearAnswer(sent[2].mad.transaction_id, kPeer);
  At(4'599);
  EXPECT_EQ(Questions(), 0u);
  EXPECT_TRUE(holder->selective_repeat());
  EXPECT_EQ(Told(), std::nullopt);
}

TEST_F(CapabilityNegotiationTest, LateAnswerStillCounts) {
  const Holder holder = Use();
  const uint64_t asked = Asked();
  At(1000);
  EXPECT_EQ(holder->state, State::kSilent);
  HearAnswer(asked, kPeer);
  EXPECT_TRUE(holder->selective_repeat());
  EXPECT_EQ(Told(), true);
}

TEST_F(CapabilityNegotiationTest, RestartedPeerWithoutItIsBelieved) {
  const Holder holder = Agreed();
  At(2000);
  HearAnswer(Asked(), kPeerWithout);
  EXPECT_FALSE(holder->selective_repeat());
  EXPECT_EQ(Told(), false);
  EXPECT_EQ(holder->restarts, 1u);
}

TEST_F(CapabilityNegotiationTest, NewConnectionHasAPeerAskedThatMayHaveRestarted) {
  const Holder first = Agreed();
  At(1500);
  const Holder second = Use();
  HearAnswer(Asked(), kPeerWithout);
  EXPECT_FALSE(second->selective_repeat());
}

TEST_F(CapabilityNegotiationTest, QuestionOfARestartedPeerHasItAsked) {
  const Holder holder = Use();
  HearAnswer(Asked(), kPeerWithout);
  At(5000);
  HearQuestion(kPeer);
  const std::vector<Datagram> sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].mad.method, MadMethod::kGetResponse);
  EXPECT_FALSE(holder->selective_repeat()) << "anyone might have sent that";
  HearAnswer(sent[1].mad.transaction_id, kPeer);
  EXPECT_TRUE(holder->selective_repeat());
  HearQuestion(kPeer);
  EXPECT_EQ(Questions(), 1u) << "nothing new: answered, not asked";
}

TEST_F(CapabilityNegotiationTest, WhatIsOldIsNotBelieved) {
  Agreed().reset();
  At(4001);
  EXPECT_EQ(Questions(), 0u) << "no queue pair uses the path";
  const Holder holder = Use();
  EXPECT_FALSE(holder->selective_repeat());
  HearAnswer(Asked(), kPeer);
  EXPECT_TRUE(holder->selective_repeat());
  EXPECT_EQ(Told(), true);
}

TEST_F(CapabilityNegotiationTest, NothingIsAskedOrKeptForThoseWhoAreGone) {
  Agreed().reset();
  At(63'999);
  EXPECT_EQ(negotiation_.size(), 1u);
  At(70'000);
  EXPECT_EQ(negotiation_.size(), 0u);
  EXPECT_EQ(Questions(), 0u);
  EXPECT_EQ(negotiation_.NextDeadline(), kNever);
}

TEST_F(CapabilityNegotiationTest, AnswerTellsWhatTheDeviceKnows) {
  HearQuestion(kPeer);
  Key other = Path();
  other.device = 0;
  HearQuestion(kPeer, other);
  const std::vector<Datagram> sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].key, Path());
  EXPECT_EQ(sent[0].mad,
            (CapabilitiesMad{
                .method = MadMethod::kGetResponse, .transaction_id = 99, .capabilities = kSelf}));
  EXPECT_EQ(sent[1].mad.capabilities.features, 0u) << "switched off there";
  EXPECT_EQ(negotiation_.size(), 0u) << "a question alone makes no record";
}

TEST_F(CapabilityNegotiationTest, UnexpectedAnswerSaysNothing) {
  const Holder holder = Use();
  const uint64_t asked = Asked();
  HearAnswer(asked + 2, kPeer);
  HearAnswer(0, kPeer);
  HearAnswer(asked, kPeer, Path(3));
  Key other_vlan = Path();
  other_vlan.vlan_id = 5;
  HearAnswer(asked, kPeer, other_vlan);
  EXPECT_FALSE(holder->selective_repeat());
  EXPECT_EQ(counters().unmatched, 4u);
  HearAnswer(asked, kPeer);
  HearAnswer(asked, kPeerWithout);
  EXPECT_TRUE(holder->selective_repeat()) << "a question has one answer";
  EXPECT_EQ(counters().unmatched, 5u);
}

TEST_F(CapabilityNegotiationTest, WhatIsNoMadOfOursIsCounted) {
  auto mad = wire::EncodeCapabilities({});
  mad[39] ^= 1;
  negotiation_.OnMad(Path(), mad, now_);
  EXPECT_EQ(counters().malformed, 1u);
  EXPECT_EQ(Questions(), 0u);
}

TEST_F(CapabilityNegotiationTest, FloodOfOneSourceIsNotAnswered) {
  const Holder holder = Agreed();
  for (int i = 0; i < 10'000; ++i) HearQuestion({.features = kKnows, .instance = 1});
  EXPECT_LE(Questions(), size_t{CapabilityNegotiation::kAnswerBurst} + 1) << "and one question";
  EXPECT_GT(counters().over_rate, 9000u);
  EXPECT_TRUE(holder->selective_repeat());
  At(1000);
  static_cast<void>(Sent());
  HearQuestion(kPeer);
  EXPECT_EQ(Sent().size(), 1u) << "after that it is served again";
}

TEST_F(CapabilityNegotiationTest, FloodOfOneSourceLeavesOthersTheirAnswers) {
  for (int i = 0; i < 10'000; ++i) HearQuestion(kPeer, Path(5));
  static_cast<void>(Sent());
  for (uint32_t source = 100; source < 200; ++source) HearQuestion(kPeer, Path(source));
  EXPECT_GE(Sent().size(), 90u) << "but those who share its count";
}

TEST_F(CapabilityNegotiationTest, FloodOfManySourcesLeavesNothingBehind) {
  for (uint32_t source = 0; source < 100'000; ++source) HearQuestion(kPeer, Path(source));
  EXPECT_EQ(negotiation_.size(), 0u);
  EXPECT_LE(Questions(), SourceLimit::kBuckets * CapabilityNegotiation::kAnswerBurst);
  EXPECT_EQ(negotiation_.NextDeadline(), kNever);
}

TEST_F(CapabilityNegotiationTest, ManyPeersAtOnceAreAskedOneAfterTheOther) {
  std::vector<Holder> holders;
  for (uint32_t peer = 0; peer < 1000; ++peer) holders.push_back(Use(Path(100 + peer)));
  EXPECT_LE(Questions(), CapabilityNegotiation::kQuestionBurst);
  At(4100);
  EXPECT_EQ(counters().questions_sent, 3000u) << "each has had its three";
}

class SharedNegotiationTest : public CapabilityNegotiationTest {
 protected:
  SharedNegotiationTest() : CapabilityNegotiationTest(9) {}
};

TEST_F(SharedNegotiationTest, AUserThatUsesAllPathsItCanLeavesSomeToOthers) {
  std::vector<Holder> holders;
  const auto use_all = [&](uint32_t user) {
    uint32_t count = 0;
    while (Holder holder = Use(Path(100 * user + count), user)) {
      holders.push_back(holder);
      ++count;
    }
    return count;
  };
  EXPECT_EQ(use_all(1), 6u);
  EXPECT_EQ(use_all(2), 2u);
  EXPECT_EQ(use_all(3), 1u);
  EXPECT_NE(Use(Path(100), 4), nullptr) << "that is there";
  holders.clear();
  EXPECT_EQ(use_all(2), 6u) << "unused ones make room";
  static_cast<void>(Sent());
}

class FewNegotiationsTest : public CapabilityNegotiationTest {
 protected:
  FewNegotiationsTest() : CapabilityNegotiationTest(2) {}
};

TEST_F(FewNegotiationsTest, PathsBeyondTheLimitGoWithoutAndUnusedOnesMakeRoom) {
  const Holder first = Use(Path(2));
  Holder second = Use(Path(3));
  EXPECT_EQ(Use(Path(4)), nullptr);
  EXPECT_EQ(counters().no_room, 1u);
  EXPECT_EQ(Use(Path(2)), first) << "that is there";
  second.reset();
  EXPECT_NE(Use(Path(4)), nullptr);
  EXPECT_EQ(negotiation_.size(), 2u);
  static_cast<void>(Sent());
}

}  // namespace
}  // namespace uroce::nic::peers
