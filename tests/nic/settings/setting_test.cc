// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/setting.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

TEST(ListenAddressTest, AnAddressHasAPort) {
  const auto v4 = ParseListenAddress("127.0.0.1:9464");
  ASSERT_TRUE(v4.ok()) << v4.status();
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 9464);
  EXPECT_EQ(v4->path, "");
  const auto v6 = ParseListenAddress("[::1]:1");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "::1");
}

TEST(ListenAddressTest, AnAbsolutePathIsASocket) {
  const auto path = ParseListenAddress("/run/uroce/metrics.sock");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->path, "/run/uroce/metrics.sock");
  EXPECT_FALSE(ParseListenAddress("/" + std::string(100, 'a')).ok());
}

TEST(ListenAddressTest, EverythingElseIsRefused) {
  for (const char* text :
       {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
        "127.0.0.1:-1", "localhost:9464", "::1:9464", "[127.0.0.1]:80", "[::1]", "metrics.sock"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

}  // namespace
}  // namespace uroce::nic
