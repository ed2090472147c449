// SPDX-License-Identifier: Apache-2.0
// From which address packets go, over several devices and all kinds of routes.
#include "nic/paths/source_choice.h"

#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

/// Two devices beside the kernel, then the ends of a wire, then a port that is its own host.
class SourceChoiceTest : public testing::Test {
 protected:
  SourceChoiceTest() {
    first_.interfaces[7] = 17;
    left_.wire_number = right_.wire_number = 0;
    host_.has_host = true;
    for (TestDevice* device : {&left_, &right_, &host_}) device->interfaces.clear();
    host_.own_routes = {ParseRoute("10.99.0.0/16 via 10.4.0.254").value(),
                        ParseRoute("fd99::/16 via fe80::fe").value()};
  }
  void Route(const char* destination, int by, const char* source, int ifindex = 0) {
    kernel_.routes[{ifindex, Ip(destination)}] = {.ifindex = by, .source = Ip(source)};
  }
  absl::StatusOr<SourceAddress> Choose(const char* destination, int ifindex = 0) {
    return choice_.Choose(Ip(destination), ifindex);
  }
  void ExpectSource(const char* destination, const TestDevice& device, const char* address,
                    int ifindex = 0, uint16_t vlan_id = 0) {
    const auto source = Choose(destination, ifindex);
    ASSERT_TRUE(source.ok()) << destination << ": " << source.status();
    EXPECT_EQ(source->device, &device) << destination << ": " << source->device->name();
    EXPECT_EQ(source->address, Ip(address))
        << destination << ": " << FormatAddress(source->address);
    EXPECT_EQ(source->vlan_id, vlan_id) << destination;
  }

  TestKernel kernel_;
  TestDevice first_{0, {Address("10.0.0.1/24"), Address("10.7.0.1/24", 7), Address("fd00::1/64")}};
  TestDevice second_{1, {Address("10.1.0.1/24"), Address("fd01::1/64")}};
  TestDevice left_{2, {Address("10.2.0.1/24"), Address("fd02::1/64"), Address("10.2.7.1/24", 7)}};
  TestDevice right_{3, {Address("10.2.0.2/24"), Address("fd02::2/64"), Address("10.2.7.2/24", 7)}};
  TestDevice host_{4, {Address("10.4.0.1/24"), Address("fd04::1/64"), Address("10.4.7.1/24", 7)}};
  SourceChoice choice_{{&first_, &second_, &left_, &right_, &host_}, kernel_};
};

TEST_F(SourceChoiceTest, AnOwnAddressIsReachedFromItself) {
  ExpectSource("10.0.0.1", first_, "10.0.0.1");
  ExpectSource("10.1.0.1", second_, "10.1.0.1");
  ExpectSource("10.7.0.1", first_, "10.7.0.1", 0, 7);
  ExpectSource("10.4.0.1", host_, "10.4.0.1");
}

TEST_F(SourceChoiceTest, AnEndOfAWireIsReachedFromTheOther) {
  ExpectSource("10.2.0.2", left_, "10.2.0.1");
  ExpectSource("10.2.0.1", right_, "10.2.0.2");
  ExpectSource("fd02::2", left_, "fd02::1");
  ExpectSource("10.2.7.2", left_, "10.2.7.1", 0, 7);
}

TEST_F(SourceChoiceTest, AProgramThatUsesTheOwnerAloneReachesItFromItself) {
  const auto source = [&](std::vector<const NetDevice*> used) {
    return choice_.Choose(Ip("10.2.0.2"), 0, used)->device;
  };
  EXPECT_EQ(source({&right_}), &right_);
  EXPECT_EQ(source({&left_}), &left_);
  EXPECT_EQ(source({&right_, &left_}), &left_);
  EXPECT_EQ(source({&first_}), &left_) << "it uses neither";
}

TEST_F(SourceChoiceTest, ANicAtASwitchIsReachedFromAnotherOne) {
  TestDevice a(0, {Address("10.5.0.1/24")});
  TestDevice b(1, {Address("10.5.0.2/24")});
  TestDevice elsewhere(2, {Address("10.5.0.3/24")});
  for (TestDevice* device : {&a, &b}) device->is_at_switch = true;
  for (TestDevice* device : {&a, &b, &elsewhere}) device->has_host = true;
  SourceChoice choice({&elsewhere, &a, &b}, kernel_);
  EXPECT_EQ(choice.Choose(Ip("10.5.0.1"), 0)->device, &b);
  EXPECT_EQ(choice.Choose(Ip("10.5.0.2"), 0)->device, &a);
  EXPECT_EQ(choice.Choose(Ip("10.5.0.3"), 0)->device, &elsewhere);
}

TEST_F(SourceChoiceTest, AnEndWithoutAPeerInItsPrefixReachesItself) {
  TestDevice alone(0, {Address("10.5.0.1/24")});
  TestDevice far(1, {Address("10.6.0.1/24")});
  alone.wire_number = far.wire_number = 1;
  SourceChoice choice({&alone, &far}, kernel_);
  EXPECT_EQ(choice.Choose(Ip("10.5.0.1"), 0)->device, &alone);
}

TEST_F(SourceChoiceTest, ANeighbourOnAWireIsReachedByTheWire) {
  ExpectSource("10.2.0.77", left_, "10.2.0.1");
}

TEST_F(SourceChoiceTest, TheKernelsRouteNamesTheSource) {
  Route("192.0.2.1", 11, "10.1.0.1");
  ExpectSource("192.0.2.1", second_, "10.1.0.1");
  Route("192.0.2.2", 17, "10.7.0.1");
  ExpectSource("192.0.2.2", first_, "10.7.0.1", 0, 7);
  Route("2001:db8::1", 10, "fd00::1");
  ExpectSource("2001:db8::1", first_, "fd00::1");
}

TEST_F(SourceChoiceTest, ARouteByNoNicIsNoUse) {
  Route("192.0.2.1", 99, "10.1.0.1");
  EXPECT_TRUE(absl::IsNotFound(Choose("192.0.2.1").status())) << "another interface";
  Route("192.0.2.2", 10, "10.1.0.1");
  EXPECT_TRUE(absl::IsNotFound(Choose("192.0.2.2").status())) << "another device's address";
  Route("192.0.2.3", 10, "10.7.0.1");
  EXPECT_TRUE(absl::IsNotFound(Choose("192.0.2.3").status())) << "an address of another VLAN";
  EXPECT_TRUE(absl::IsUnavailable(Choose("192.0.2.4").status())) << "no route";
}

TEST_F(SourceChoiceTest, TheKernelsRoutesAreNotThoseOfOwnHosts) {
  host_.interfaces[0] = 14;
  Route("192.0.2.1", 14, "10.4.0.1");
  EXPECT_TRUE(absl::IsNotFound(Choose("192.0.2.1").status()));
}

TEST_F(SourceChoiceTest, WhatIsOnAnOwnHostsLinkComesBeforeTheKernelsRoutes) {
  Route("10.4.0.9", 10, "10.0.0.1");
  ExpectSource("10.4.0.9", host_, "10.4.0.1");
  ExpectSource("10.4.7.9", host_, "10.4.7.1", 0, 7);
  ExpectSource("fd04::9", host_, "fd04::1");
}

TEST_F(SourceChoiceTest, GatewaysOfAnOwnHostComeLast) {
  ExpectSource("10.99.1.1", host_, "10.4.0.1");
  ExpectSource("fd99::1", host_, "fd04::1");
  Route("10.99.1.1", 10, "10.0.0.1");
  ExpectSource("10.99.1.1", first_, "10.0.0.1");
}

TEST_F(SourceChoiceTest, AGroupIsOnTheFirstLinkOfItsFamily) {
  ExpectSource("239.1.1.1", left_, "10.2.0.1");
  ExpectSource("ff0e::1", left_, "fd02::1");
}

TEST_F(SourceChoiceTest, AnAddressOfTheWholeHostIsTheFirstDevicesWithALink) {
  ExpectSource("127.0.0.1", first_, "10.0.0.1");
  ExpectSource("::1", first_, "fd00::1");
  first_.has_link = false;
  ExpectSource("127.0.0.1", second_, "10.1.0.1");
  for (TestDevice* device : {&second_, &left_, &right_, &host_}) device->has_link = false;
  ExpectSource("127.0.0.1", first_, "10.0.0.1");
}

TEST_F(SourceChoiceTest, WithoutAnAddressOfTheFamilyThereIsNoDevice) {
  TestDevice bare(0, {});
  SourceChoice choice({&bare}, kernel_);
  EXPECT_TRUE(absl::IsNotFound(choice.Choose(Ip("127.0.0.1"), 0).status()));
  EXPECT_EQ(choice.Choose(Ip("::1"), 0)->device, &bare) << "it has its link-local address";
}

TEST_F(SourceChoiceTest, ALinkLocalDestinationLeavesByTheInterfaceThatIsNamed) {
  const Gid first_link_local = DefaultGid(first_.mac());
  const Gid second_link_local = DefaultGid(second_.mac());
  kernel_.routes[{10, Ip("fe80::77")}] = {.ifindex = 10, .source = first_link_local};
  kernel_.routes[{11, Ip("fe80::77")}] = {.ifindex = 11, .source = second_link_local};
  ExpectSource("fe80::77", first_, FormatAddress(first_link_local).c_str(), 10);
  ExpectSource("fe80::77", second_, FormatAddress(second_link_local).c_str(), 11);
  EXPECT_FALSE(choice_.Choose(Ip("fe80::77"), 12).ok()) << "no NIC's interface, and no port's";
}

TEST_F(SourceChoiceTest, AnOwnLinkLocalAddressIsTheInterfacesThatIsNamed) {
  TestDevice one(0, {Address("fe80::5/64")});
  TestDevice two(1, {Address("fe80::5/64")});
  SourceChoice choice({&one, &two}, kernel_);
  EXPECT_EQ(choice.FindOwner(Ip("fe80::5"), 10)->device, &one);
  EXPECT_EQ(choice.FindOwner(Ip("fe80::5"), 11)->device, &two);
  EXPECT_EQ(choice.FindOwner(Ip("fe80::5"), 12), std::nullopt);
  EXPECT_EQ(choice.FindOwner(Ip("fe80::5"), 0)->device, &one);
  EXPECT_EQ(choice.FindOwner(DefaultGid(two.mac()), 0)->device, &two) << "no setting names it";
}

}  // namespace
}  // namespace uroce::nic
