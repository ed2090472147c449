// SPDX-License-Identifier: Apache-2.0
#include "tools/extcap/extcap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(ExtcapTest, EachDeviceIsAnInterfaceWithItsAddress) {
  const auto interfaces = ReadExtcapInterfaces(
      R"({"devices": [{"name": "uroce0", "addresses": ["10.0.0.1/24", "fd00::1/64"]}]})");
  const std::string text = DescribeInterfaces(interfaces);
  EXPECT_THAT(text, HasSubstr("extcap {version="));
  EXPECT_THAT(text, HasSubstr("interface {value=uroce0}{display=RoCEv2 NIC of uroced, "
                              "10.0.0.1/24}\n"));
  EXPECT_THAT(text, Not(HasSubstr("{value=uroce}")));
}

TEST(ExtcapTest, TwoDevicesAreListedTogetherToo) {
  EXPECT_THAT(DescribeInterfaces({{"a", ""}, {"b", ""}}), HasSubstr("interface {value=uroce}"));
  EXPECT_EQ(DeviceOfInterface("uroce"), "");
  EXPECT_EQ(DeviceOfInterface("a"), "a");
}

TEST(ExtcapTest, DeviceWithTheNameOfAllIsListedOnce) {
  const std::string text = DescribeInterfaces({{"uroce", ""}, {"b", ""}});
  EXPECT_EQ(text.find("{value=uroce}"), text.rfind("{value=uroce}"));
}

TEST(ExtcapTest, NoDaemonIsNoInterfaceButStillAnAnswer) {
  EXPECT_THAT(DescribeInterfaces({}), HasSubstr("extcap {version="));
  EXPECT_THAT(DescribeInterfaces({}), Not(HasSubstr("interface")));
}

TEST(ExtcapTest, DumpsOfAnotherKindHaveNoDevices) {
  for (const char* text :
       {"", "7", "{}", R"({"devices": 4})", R"({"devices": [4, {"name": 5}]})"}) {
    EXPECT_THAT(ReadExtcapInterfaces(text), IsEmpty()) << text;
  }
}

// The daemon may be another one than the user thinks.
TEST(ExtcapTest, NamesAndAddressesForgeNoSentence) {
  const auto interfaces = ReadExtcapInterfaces(
      R"({"devices": [{"name": "a}"}, {"name": "{a"}, {"name": "b\ninterface {value=c}"},)"
      R"( {"name": "d", "addresses": ["10.0.0.1}{x=y\u001b"]}]})");
  ASSERT_EQ(interfaces.size(), 1u);
  EXPECT_EQ(interfaces[0].device, "d");
  EXPECT_EQ(interfaces[0].address, "");
}

TEST(ExtcapFoldersTest, BothSpellingsOfTsharkAreRead) {
  const ExtcapFolders old = ParseExtcapFolders("Temp:\t/tmp\nExtcap path:  \t/usr/lib/extcap\n");
  EXPECT_EQ(old.global, "/usr/lib/extcap");
  EXPECT_EQ(old.personal, "");
  const ExtcapFolders later = ParseExtcapFolders(
      "Personal Extcap path:\t/h/u/extcap\nGlobal Extcap path:\t/usr/lib/extcap\n");
  EXPECT_EQ(later.global, "/usr/lib/extcap");
  EXPECT_EQ(later.personal, "/h/u/extcap");
}

TEST(ExtcapFoldersTest, DissectorsHaveTheirOwnFolders) {
  const ExtcapFolders folders = ParseExtcapFolders(
      "Personal Plugins:\t/h/u/plugins/4.0\nPersonal Lua Plugins:\t/h/u/plugins\n"
      "Global Lua Plugins:\t/usr/lib/plugins\n");
  EXPECT_EQ(folders.personal_lua, "/h/u/plugins");
  EXPECT_EQ(folders.global_lua, "/usr/lib/plugins");
  EXPECT_EQ(folders.personal, "");
}

}  // namespace
}  // namespace uroce::tools
