// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/qpn_owners.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce {
namespace {

constexpr uint32_t kWorkers = 3;

Qpn NumberOf(uint32_t worker, uint32_t index = 1) {
  return Qpn(FirstQpnOf(worker, kWorkers) + index);
}

TEST(QpnOwnersTest, ANumberSaysItsOwnerUntilItIsMoved) {
  QpnOwners owners(kWorkers);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_EQ(owners.OwnerOf(NumberOf(worker)), worker);
  }
  ASSERT_TRUE(owners.Move(NumberOf(0), 2));
  EXPECT_EQ(owners.OwnerOf(NumberOf(0)), 2u);
  EXPECT_EQ(owners.OwnerOf(NumberOf(0, 2)), 0u) << "no other number moves with it";
  EXPECT_EQ(owners.OwnerOf(NumberOf(1)), 1u);
  ASSERT_TRUE(owners.Move(NumberOf(2), 0)) << "worker 0 is an owner like the others";
  EXPECT_EQ(owners.OwnerOf(NumberOf(2)), 0u);
}

TEST(QpnOwnersTest, AMovedNumberMayMoveAgainAndReturn) {
  QpnOwners owners(kWorkers);
  ASSERT_TRUE(owners.Move(NumberOf(0), 2));
  ASSERT_TRUE(owners.Move(NumberOf(0), 1));
  EXPECT_EQ(owners.OwnerOf(NumberOf(0)), 1u);
  ASSERT_TRUE(owners.Move(NumberOf(0), 0));
  EXPECT_EQ(owners.OwnerOf(NumberOf(0)), 0u);
}

TEST(QpnOwnersTest, AForgottenNumberSaysItsOwnerAgain) {
  QpnOwners owners(kWorkers);
  owners.Forget(NumberOf(1));
  ASSERT_TRUE(owners.Move(NumberOf(1), 2));
  ASSERT_TRUE(owners.Move(NumberOf(1, 2), 2));
  owners.Forget(NumberOf(1));
  EXPECT_EQ(owners.OwnerOf(NumberOf(1)), 1u);
  EXPECT_EQ(owners.OwnerOf(NumberOf(1, 2)), 2u);
}

TEST(QpnOwnersTest, TheFirstAndTheLastNumberMayMoveToTheLastWorker) {
  QpnOwners owners(kMaxWorkers);
  for (const Qpn qpn : {Qpn(0), Qpn(0xffffff)}) {
    ASSERT_TRUE(owners.Move(qpn, kMaxWorkers - 1));
    EXPECT_EQ(owners.OwnerOf(qpn), kMaxWorkers - 1);
  }
}

}  // namespace
}  // namespace uroce
