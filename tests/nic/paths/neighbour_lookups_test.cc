// SPDX-License-Identifier: Apache-2.0
// Many who wait for the same few neighbours: one question, each in its time, each user its share.
#include "nic/paths/neighbours.h"

#include <absl/strings/str_format.h>

#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kUser = 1000;
constexpr uint32_t kOtherUser = 1001;
/// What a user alone gets of the paths that are asked for, see FairShare.
constexpr size_t kShare = NeighbourLookups::kMostPaths / 3 * 2;

class NeighbourLookupsTest : public PathsBed {
 protected:
  using Answer = std::optional<absl::Status>;

  NeighbourLookups::Id Start(const PathKey& path, Answer& answer, Nanos timeout = kSecond,
                             uint32_t user = kUser) {
    return lookups_->Start(path, user, timeout, [&answer](const absl::Status& status) {
      EXPECT_FALSE(answer) << "answered twice";
      answer = status;
    });
  }
  static bool IsSilence(const Answer& answer) {
    return answer && absl::IsDeadlineExceeded(*answer);
  }
  /// One path for each number.
  PathKey Path(size_t number) const {
    return To(absl::StrFormat("10.9.%d.%d", number / 250, number % 250 + 1).c_str());
  }

  std::unique_ptr<NeighbourLookups> lookups_ =
      std::make_unique<NeighbourLookups>(timers_, neighbours_);
};

TEST_F(NeighbourLookupsTest, AThousandWaitersAskOnce) {
  std::vector<Answer> answers(1000);
  for (Answer& answer : answers) Start(To("10.0.0.2"), answer);
  timers_.Run(kMilli * 100);
  EXPECT_EQ(kernel_.probes.size(), 1u);
  Know("10.0.0.2", 2);
  timers_.Run(kMilli * 200);
  for (const Answer& answer : answers) EXPECT_EQ(answer, absl::OkStatus());
  EXPECT_EQ(timers_.pending(), 0u);
}

TEST_F(NeighbourLookupsTest, NoLookupIsAnsweredFromWithinTheCall) {
  Answer own;
  Answer group;
  Start(To("10.0.0.1"), own);
  Start(To("239.1.2.3"), group);
  EXPECT_FALSE(own || group);
  timers_.Run(Nanos(0));
  EXPECT_EQ(own, absl::OkStatus());
  EXPECT_EQ(group, absl::OkStatus()) << "a group has its MAC by itself";
}

TEST_F(NeighbourLookupsTest, EachGivesUpInItsOwnTime) {
  Answer hasty;
  Answer patient;
  Start(To("10.0.0.2"), patient, kSecond * 10);
  Start(To("10.0.0.2"), hasty, kSecond * 2);
  timers_.Run(kSecond * 2 - Nanos(1));
  EXPECT_FALSE(hasty);
  timers_.Run(kMilli * 11);
  EXPECT_TRUE(IsSilence(hasty));
  EXPECT_FALSE(patient);
  Know("10.0.0.2", 2);
  timers_.Run(kSecond);
  EXPECT_EQ(patient, absl::OkStatus()) << "still asked for";
}

TEST_F(NeighbourLookupsTest, ALongTimeoutIsWaitedFor) {
  Answer answer;
  Start(To("10.0.0.2"), answer, kSecond * 30);
  timers_.Run(kSecond * 29);
  EXPECT_FALSE(answer);
  Know("10.0.0.2", 2);
  timers_.Run(kMilli * 200);
  EXPECT_EQ(answer, absl::OkStatus());
}

TEST_F(NeighbourLookupsTest, WithoutARouteThereIsNothingToWaitFor) {
  kernel_.unreachable.insert(Ip("10.0.0.2"));
  Answer answer;
  Start(To("10.0.0.2"), answer);
  timers_.Run(Nanos(0));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(absl::IsUnavailable(*answer));
}

TEST_F(NeighbourLookupsTest, AUserHasAShareAndLeavesOthersSome) {
  std::vector<Answer> answers(kShare);
  for (size_t i = 0; i < kShare; ++i) Start(Path(i), answers[i]);
  Answer refused;
  Start(Path(kShare), refused);
  Answer joins;
  Start(Path(0), joins);
  Answer others;
  Start(Path(kShare + 1), others, kSecond, kOtherUser);
  timers_.Run(Nanos(0));
  ASSERT_TRUE(IsSilence(refused)) << "more than a share, told at once";
  EXPECT_NE(refused->message().find("1024 by user 1000"), std::string::npos) << *refused;
  EXPECT_FALSE(joins) << "what is asked for already costs nothing";
  EXPECT_FALSE(others);
  timers_.Run(kSecond * 2);
  EXPECT_TRUE(IsSilence(others));
  Answer again;
  Start(Path(kShare), again);
  timers_.Run(Nanos(0));
  EXPECT_FALSE(again) << "places come back";
}

TEST_F(NeighbourLookupsTest, AnsweredPlacesComeBack) {
  for (size_t i = 0; i < 2 * kShare; ++i) {
    Answer answer;
    kernel_.neighbours[{kInterface, Path(i).destination}] = MacOf(2);
    Start(Path(i), answer);
    timers_.Run(Nanos(0));
    ASSERT_EQ(answer, absl::OkStatus()) << i;
  }
}

TEST_F(NeighbourLookupsTest, WhoLeavesLastEndsTheQuestion) {
  Answer first;
  Answer second;
  const auto one = Start(To("10.0.0.2"), first, kSecond * 30);
  const auto two = Start(To("10.0.0.2"), second, kSecond * 30);
  lookups_->Cancel(one);
  timers_.Run(kSecond);
  const int asked = kernel_.neighbours_asked;
  EXPECT_GT(asked, 0);
  lookups_->Cancel(two);
  lookups_->Cancel(two);
  timers_.Run(kSecond * 10);
  EXPECT_EQ(kernel_.neighbours_asked, asked);
  EXPECT_EQ(timers_.pending(), 0u);
  EXPECT_FALSE(first || second);
}

TEST_F(NeighbourLookupsTest, CancelledPlacesComeBack) {
  Answer answer;
  for (size_t i = 0; i < 2 * kShare; ++i) lookups_->Cancel(Start(Path(i), answer));
  Start(To("10.0.0.2"), answer);
  timers_.Run(Nanos(0));
  EXPECT_FALSE(answer);
}

TEST_F(NeighbourLookupsTest, AHandlerMayCancelAndStartOthers) {
  Know("10.0.0.2", 2);
  Answer cancelled;
  Answer started;
  NeighbourLookups::Id other = 0;
  lookups_->Start(To("10.0.0.2"), kUser, kSecond, [&](const absl::Status&) {
    lookups_->Cancel(other);
    Start(To("10.0.0.1"), started);
    EXPECT_FALSE(started);
  });
  other = Start(To("10.0.0.2"), cancelled);
  timers_.Run(kMilli);
  EXPECT_FALSE(cancelled);
  EXPECT_EQ(started, absl::OkStatus());
}

TEST_F(NeighbourLookupsTest, TheEndSendsNoQuestionAndNoAnswer) {
  Answer silent;
  Answer known;
  Start(To("10.0.0.2"), silent);
  Start(To("10.0.0.1"), known);
  lookups_.reset();
  EXPECT_EQ(timers_.pending(), 0u);
  EXPECT_FALSE(silent || known);
}

}  // namespace
}  // namespace uroce::nic
