// SPDX-License-Identifier: Apache-2.0
// Limits of connections: whoever is turned away is told why, and who leaves makes room.
#include "nic/base/quota.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace uroce::nic {
namespace {

constexpr uid_t kAlice = 1000;
constexpr uid_t kBob = 1001;

TEST(AdmissionTest, OneUserCannotTakeAllPlaces) {
  Admission admission({.total = 4, .per_user = 2});
  std::vector<Admission::Place> places;
  for (int i = 0; i < 2; ++i) places.push_back(*admission.Admit(kAlice, false));
  const auto third = admission.Admit(kAlice, false);
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_EQ(third.status().message(),
            "user 1000 has 2 programs connected, see --max-sessions-per-user");
  EXPECT_TRUE(admission.Admit(kBob, false).ok());
}

TEST(AdmissionTest, LimitsChangeForThoseWhoCome) {
  Admission admission({.total = 1, .per_user = 1});
  const auto first = admission.Admit(1000, false);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(admission.Admit(1001, false).ok());
  admission.SetLimits({.total = 2, .per_user = 1});
  EXPECT_TRUE(admission.Admit(1001, false).ok());
  admission.SetLimits({.total = 0, .per_user = 1});  // Who is there stays.
  EXPECT_FALSE(admission.Admit(1002, false).ok());
}

TEST(AdmissionTest, WhoLeavesMakesRoom) {
  Admission admission({.total = 1, .per_user = 1});
  std::optional<Admission::Place> place = *admission.Admit(kAlice, false);
  EXPECT_FALSE(admission.Admit(kAlice, false).ok());
  place.reset();
  EXPECT_TRUE(admission.Admit(kAlice, false).ok());
}

TEST(AdmissionTest, APlaceIsTakenForAsLongAsAnythingHoldsOnToIt) {
  Admission admission({.total = 1, .per_user = 1});
  std::optional<Admission::Place> place = *admission.Admit(kAlice, false);
  std::optional<Admission::Place> left_behind = place;
  place.reset();
  EXPECT_FALSE(admission.Admit(kAlice, false).ok());
  left_behind.reset();
  EXPECT_TRUE(admission.Admit(kAlice, false).ok());
}

TEST(AdmissionTest, ThePrivilegedGetInWhenAllPlacesAreTaken) {
  Admission admission({.total = 2, .per_user = 2});
  const Admission::Place one = *admission.Admit(kAlice, false);
  const Admission::Place two = *admission.Admit(kBob, false);
  const auto refused = admission.Admit(kBob, false);
  EXPECT_EQ(refused.status().message(), "2 programs are connected, see --max-sessions");
  std::vector<Admission::Place> places;
  for (uint32_t i = 0; i < Admission::kReserved; ++i) places.push_back(*admission.Admit(0, true));
  EXPECT_FALSE(admission.Admit(0, true).ok()) << "the reserve has an end too";
}

TEST(AdmissionTest, APlaceMayOutliveIt) {
  Admission::Place place;
  {
    Admission admission({.total = 2, .per_user = 2});
    place = *admission.Admit(kAlice, false);
  }
  place.reset();
}

}  // namespace
}  // namespace uroce::nic
