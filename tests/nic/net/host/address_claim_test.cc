// SPDX-License-Identifier: Apache-2.0
// Probing for an address, announcing and defending it (RFC 5227; RFC 4862, 5.4).
#include "nic/net/host/address_claim.h"

#include <gtest/gtest.h>

#include "tests/nic/net/host/host_fixture.h"

namespace uroce::nic {
namespace {

using Reaction = AddressClaim::Reaction;
using State = AddressClaim::State;
using Step = AddressClaim::Step;

class AddressClaimTest : public testing::Test {
 protected:
  /// The step that is due next, at its time.
  Step Next() {
    now = std::max(now, claim.NextDeadline());
    return claim.OnDeadline(now);
  }
  void MakeUsable() {
    claim.OnLinkUp(now);
    while (Next() != Step::kUse) {
    }
  }

  AddressClaim claim{Addr("10.0.0.1/24")};
  Nanos now{1'000'000'000};
};

TEST_F(AddressClaimTest, AnAddressIsUsedAfterThreeProbesAndAnnouncedTwice) {
  EXPECT_EQ(claim.state(), State::kTentative);
  claim.OnLinkUp(now);
  const Nanos start = now;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Next(), Step::kProbe);
  EXPECT_EQ(claim.state(), State::kTentative);
  EXPECT_EQ(Next(), Step::kUse);
  EXPECT_EQ(claim.state(), State::kUsable);
  EXPECT_EQ((now - start).count(), 400'000'000);
  EXPECT_EQ(Next(), Step::kAnnounce);
  EXPECT_EQ(claim.NextDeadline(), kNever);
}

TEST_F(AddressClaimTest, NothingIsDueBeforeItsTime) {
  claim.OnLinkUp(now);
  EXPECT_EQ(Next(), Step::kProbe);
  EXPECT_EQ(claim.OnDeadline(now), Step::kNone);
}

TEST_F(AddressClaimTest, AConflictWhileProbingLosesTheAddress) {
  claim.OnLinkUp(now);
  Next();
  EXPECT_EQ(claim.OnConflict(now), Reaction::kLost);
  EXPECT_EQ(claim.state(), State::kConflict);
  EXPECT_EQ(claim.OnConflict(now), Reaction::kNone);
}

TEST_F(AddressClaimTest, ALostAddressIsTriedAgainAndLostInSilence) {
  claim.OnLinkUp(now);
  Next();
  claim.OnConflict(now);
  const Nanos lost = now;
  EXPECT_EQ(Next(), Step::kProbe);
  EXPECT_EQ(now - lost, AddressClaim::kRetry);
  EXPECT_EQ(claim.state(), State::kConflict);
  EXPECT_EQ(claim.OnConflict(now), Reaction::kNone);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Next(), Step::kProbe);
  EXPECT_EQ(Next(), Step::kUse);
  EXPECT_EQ(claim.state(), State::kUsable);
}

TEST_F(AddressClaimTest, AnAddressInUseIsDefendedOnceInTenSeconds) {
  MakeUsable();
  EXPECT_EQ(claim.OnConflict(now), Reaction::kDefend);
  EXPECT_EQ(claim.OnConflict(now + Nanos(9'999'999'999)), Reaction::kNone);
  EXPECT_EQ(claim.OnConflict(now + Nanos(10'000'000'000)), Reaction::kDefend);
  EXPECT_EQ(claim.state(), State::kUsable);
}

TEST_F(AddressClaimTest, WithoutALinkAnAddressIsUsable) {
  claim.OnLinkDown();
  EXPECT_EQ(claim.state(), State::kUsable);
  EXPECT_EQ(claim.NextDeadline(), kNever);
}

TEST_F(AddressClaimTest, AnAddressInUseStaysSoWhileItIsProbedOnANewLink) {
  MakeUsable();
  claim.OnLinkDown();
  claim.OnLinkUp(now);
  EXPECT_EQ(Next(), Step::kProbe);
  EXPECT_EQ(claim.state(), State::kUsable);
  EXPECT_EQ(claim.OnConflict(now), Reaction::kLost);
}

TEST_F(AddressClaimTest, ALostAddressDoesNotComeBackByALostLink) {
  claim.OnLinkUp(now);
  claim.OnConflict(now);
  claim.OnLinkDown();
  EXPECT_EQ(claim.state(), State::kConflict);
}

}  // namespace
}  // namespace uroce::nic
