// SPDX-License-Identifier: Apache-2.0
// NICs that serve the same address see each other.
#include "nic/net/kernel_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// No interface: other runs of this test have other numbers.
const int kEth0 = 1'000'000'000 + getpid();
const int kEth1 = -kEth0;
const Gid kFirst = Ipv4Gid(0xc0000201);
const Gid kSecond = ParseInterfaceAddress("2001:db8:1111:2222:3333:4444:5555:6666")->gid;

TEST(AddressSignsTest, TheSecondNicWithAnAddressSeesTheFirst) {
  AddressSigns first;
  AddressSigns second;
  EXPECT_THAT(first.Show({{kEth0, kFirst}, {kEth0, kSecond}}), IsEmpty());
  EXPECT_THAT(second.Show({{kEth0, kSecond}}), ElementsAre(AddressSigns::Place(kEth0, kSecond)));
}

TEST(AddressSignsTest, OtherAddressesAndOtherInterfacesAreNoMistake) {
  AddressSigns first;
  AddressSigns second;
  EXPECT_THAT(first.Show({{kEth0, kFirst}, {kEth1, kSecond}}), IsEmpty());
  EXPECT_THAT(second.Show({{kEth0, kSecond}, {kEth1, kFirst}}), IsEmpty());
}

TEST(AddressSignsTest, AnAddressThatStaysIsToldOnce) {
  AddressSigns first;
  AddressSigns second;
  EXPECT_THAT(first.Show({{kEth0, kFirst}}), IsEmpty());
  EXPECT_THAT(second.Show({{kEth0, kFirst}}), ElementsAre(AddressSigns::Place(kEth0, kFirst)));
  EXPECT_THAT(second.Show({{kEth0, kFirst}, {kEth0, kSecond}}), IsEmpty());
}

TEST(AddressSignsTest, AnAddressThatWentIsFreeAgain) {
  AddressSigns first;
  AddressSigns second;
  EXPECT_THAT(first.Show({{kEth0, kFirst}}), IsEmpty());
  EXPECT_THAT(first.Show({}), IsEmpty());
  EXPECT_THAT(second.Show({{kEth0, kFirst}}), IsEmpty());
}

TEST(AddressSignsTest, OneThatCameSecondIsSeenWhenTheFirstHasEnded) {
  AddressSigns second;
  {
    AddressSigns first;
    EXPECT_THAT(first.Show({{kEth0, kFirst}}), IsEmpty());
    EXPECT_THAT(second.Show({{kEth0, kFirst}}), ElementsAre(AddressSigns::Place(kEth0, kFirst)));
  }
  AddressSigns third;
  EXPECT_THAT(third.Show({{kEth0, kFirst}}), ElementsAre(AddressSigns::Place(kEth0, kFirst)));
}

TEST(AddressSignsTest, MoreThanThereAreNumbersAreSeenToo) {
  AddressSigns many[AddressSigns::kNumbers + 2];
  EXPECT_THAT(many[0].Show({{kEth0, kFirst}}), IsEmpty());
  for (int i = 1; i < AddressSigns::kNumbers + 2; ++i) {
    EXPECT_THAT(many[i].Show({{kEth0, kFirst}}), ElementsAre(AddressSigns::Place(kEth0, kFirst)));
  }
}

// A process that filled the queue of a sign would keep the daemon's memory.
TEST(AddressSignsTest, ProcessesCannotSendToASign) {
  AddressSigns signs;
  EXPECT_THAT(signs.Show({{kEth0, kFirst}}), IsEmpty());
  const std::string name = absl::StrCat("uroced/address/", kEth0, "/192.0.2.1/0");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const Fd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), length), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(bind(client.get(), reinterpret_cast<sockaddr*>(&address), length), -1);
  EXPECT_EQ(errno, EADDRINUSE);  // It is there.
}

}  // namespace
}  // namespace uroce::nic
