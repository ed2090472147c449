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
TEST(BindingsTest, AWildcardStandsBesideNoOtherBinding) {
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
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(bindings.Bind({.address = Ipv4(1), .user = i}, 4, ids[i]), Result::kOk);
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

// [cm.bind.share]
TEST(BindingsTest, AUserThatTakesAllPortsItCanLeavesSomeToOthers) {
  Bindings bindings({.first = 100, .last = 108});
  const auto take_all = [&](uint32_t user) {
    std::vector<BindingId> taken;
    BindingId id{};
    while (bindings.Bind({.address = Ipv4(1), .user = user}, 0, id) == Result::kOk) {
      taken.push_back(id);
    }
    return taken;
  };
  const std::vector<BindingId> first = take_all(1);
  EXPECT_EQ(first.size(), 6u) << "then three are free";
  EXPECT_EQ(take_all(2).size(), 2u);
  BindingId id{};
  EXPECT_EQ(bindings.Bind({.address = Ipv4(1), .port = 108, .user = 1}, 0, id), Result::kNoRoom);
  EXPECT_EQ(bindings.Bind({.address = Ipv4(1), .port = 99, .user = 1}, 0, id), Result::kOk);
  EXPECT_EQ(bindings.Bind({.space = wire::PortSpace::kUdp, .address = Ipv4(1), .user = 1}, 0, id),
            Result::kOk);
  EXPECT_EQ(take_all(3).size(), 1u);
  for (const BindingId each : first) bindings.Release(each);
  EXPECT_GT(take_all(2).size(), 0u);
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
  EXPECT_FALSE(IsWildcard(kLoopbackIpv4));
  EXPECT_FALSE(IsWildcard(kLoopbackIpv6));
}

// [cm.bind.loopback]
TEST(BindingsTest, EachFamilyHasItsLoopback) {
  EXPECT_TRUE(IsLoopback(kLoopbackIpv4));
  EXPECT_TRUE(IsLoopback(kLoopbackIpv6));
  Gid another = kLoopbackIpv4;
  another.bytes[15] = 53;
  EXPECT_TRUE(IsLoopback(another));
  another.bytes[12] = 128;
  EXPECT_FALSE(IsLoopback(another));
  EXPECT_FALSE(IsLoopback(kAnyIpv4));
  EXPECT_FALSE(IsLoopback(kAnyIpv6));
  EXPECT_FALSE(IsLoopback(Ipv6(1)));
}

// [cm.bind.loopback]
TEST(BindingsTest, ALoopbackAddressStandsBesideNoOtherBinding) {
  Bindings bindings;
  EXPECT_EQ(Bind(bindings, kLoopbackIpv4), Result::kOk);
  EXPECT_EQ(Bind(bindings, Ipv4(1)), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, kAnyIpv4), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, Ipv4(1), 6), Result::kOk);
  EXPECT_EQ(Bind(bindings, kLoopbackIpv4, 6), Result::kAddressNotAvailable);
  EXPECT_EQ(Bind(bindings, kLoopbackIpv6, 5, false, true), Result::kOk);
}

// [cm.listen.loopback]
TEST(BindingsTest, TheAddressOfAListenerIsADevicesAndOfTheFamilyThatIsAskedFor) {
  Bindings bindings;
  const wire::RdmaCmService service{PortSpace::kTcp, 5};
  const auto listen = [&](const Gid& address, uint16_t port) {
    BindingId id{};
    ASSERT_EQ(bindings.Bind({.address = address, .port = port}, 0, id), Result::kOk);
    ASSERT_EQ(bindings.Listen(id, 1), Result::kOk);
  };
  ASSERT_EQ(Bind(bindings, Ipv4(1)), Result::kOk);
  EXPECT_EQ(bindings.AddressOfListener(service, true), std::nullopt) << "bound, and no more";
  listen(Ipv4(2), 5);
  listen(Ipv6(3), 5);
  listen(kAnyIpv4, 6);
  listen(kLoopbackIpv4, 7);
  EXPECT_EQ(bindings.AddressOfListener(service, true), Ipv4(2));
  EXPECT_EQ(bindings.AddressOfListener(service, false), Ipv6(3));
  EXPECT_EQ(bindings.AddressOfListener({PortSpace::kUdp, 5}, true), std::nullopt);
  EXPECT_EQ(bindings.AddressOfListener({PortSpace::kTcp, 6}, true), std::nullopt);
  EXPECT_EQ(bindings.AddressOfListener({PortSpace::kTcp, 7}, true), std::nullopt);
}

}  // namespace
}  // namespace uroce::nic::cm
