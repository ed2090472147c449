// SPDX-License-Identifier: Apache-2.0
// Which addresses and ports can stand beside each other.
#include "nic/cm/bindings.h"

#include <gtest/gtest.h>

#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using wire::PortSpace;

Result Bind(Bindings& bindings, const Gid& address, uint16_t port = 5, bool reuse = false,
            bool own_family_only = false) {
  BindingId id{};
  return bindings.Bind({.address = address,
                        .port = port,
                        .reuse_address = reuse,
                        .own_family_only = own_family_only},
                       0, id);
}

// [cm.bind.conflict]
TEST(BindingsTest, OneAddressAndPortHasOneHolder) {
  Bindings bindings;
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kOk);
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kAddressInUse);
  EXPECT_EQ(Bind(bindings, Ipv4(2)), Result::kOk);
  EXPECT_EQ(Bind(bindings, Ipv4(1), 6), Result::kOk);
  BindingId id{};
  EXPECT_EQ(bindings.Bind({.space = PortSpace::kUdp, .address = Ipv4(1), .port = 5}, 0, id),
            Result::kOk);
}

// [cm.bind.conflict]
TEST(BindingsTest, AWildcardStandsBesideNobody) {
  Bindings bindings;
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kOk);
  EXPECT_EQ(Bind(bindings, kAnyIpv4), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, kAnyIpv6), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, kAnyIpv6, 6), Result::kOk);
  EXPECT_EQ(Bind(bindings, Ipv4(1), 6), Result::kAddressNotAvailable);
}

// [cm.bind.family]
TEST(BindingsTest, FamiliesAreApartWhenBothSaySo) {
  Bindings bindings;
  EXPECT_EQ(Bind(bindings, kAnyIpv4), Result::kOk);
  EXPECT_EQ(Bind(bindings, kAnyIpv6), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, kAnyIpv6, 5, false, true), Result::kOk);
}

// [cm.bind.reuse]
TEST(BindingsTest, AddressesAreSharedWhenBothAgreeButOneAloneListens) {
  Bindings bindings;
  BindingId first{};
  BindingId second{};
  const BindParameters shared{.address = Ipv4(1), .port = 5, .reuse_address = true};
  ASSERT_EQ(bindings.Bind(shared, 0, first), Result::kOk);
  ASSERT_EQ(bindings.Bind(shared, 0, second), Result::kOk);
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kAddressInUse);
  EXPECT_EQ(bindings.Listen(first, 1), Result::kAddressInUse);
  bindings.Release(second);
  EXPECT_EQ(bindings.Listen(first, 1), Result::kOk);
}

// [cm.bind.any-port]
TEST(BindingsTest, APortOfTheRangeIsChosenUntilThereIsNone) {
  Bindings bindings({.first = 100, .last = 102});
  BindingId ids[3] = {};
  for (BindingId& id : ids) {
    ASSERT_EQ(bindings.Bind({.address = Ipv4(1)}, 4, id), Result::kOk);
  }
  EXPECT_EQ(bindings.PortOf(ids[0]), 101);
  EXPECT_EQ(bindings.PortOf(ids[1]), 102);
  EXPECT_EQ(bindings.PortOf(ids[2]), 100);
  BindingId more{};
  EXPECT_EQ(bindings.Bind({.address = Ipv4(2)}, 0, more), Result::kNoRoom);
  bindings.Release(ids[1]);
  ASSERT_EQ(bindings.Bind({.address = Ipv4(2)}, 0, more), Result::kOk);
  EXPECT_EQ(bindings.PortOf(more), 102);
}

// [cm.bind.release]
TEST(BindingsTest, AReleasedPortIsFree) {
  Bindings bindings;
  BindingId id{};
  ASSERT_EQ(bindings.Bind({.address = kAnyIpv4, .port = 5}, 0, id), Result::kOk);
  bindings.Release(id);
  bindings.Release(id);
  EXPECT_EQ(bindings.size(), 0u);
  EXPECT_EQ(bindings.PortOf(id), 0);
  EXPECT_EQ(bindings.Listen(id, 1), Result::kNoSuchId);
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kOk);
}

// [cm.bind.wildcards]
TEST(BindingsTest, EachFamilyHasItsWildcard) {
  EXPECT_TRUE(IsWildcard(kAnyIpv4));
  EXPECT_TRUE(IsWildcard(kAnyIpv6));
  EXPECT_FALSE(IsWildcard(Ipv4(1)));
  EXPECT_FALSE(IsWildcard(Ipv6(1)));
}

}  // namespace
}  // namespace uroce::nic::cm
