// SPDX-License-Identifier: Apache-2.0
// What may be said of a memif, and the one line that answers what may not.
#include "drivers/memif/memif_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::drivers {
namespace {

using testing::HasSubstr;

absl::StatusOr<MemifConfig> Parse(const std::string& options) {
  const auto arguments = ParseDeviceArguments("net_memif0;" + options);
  if (!arguments.ok()) return arguments.status();
  return ParseMemifConfig(*arguments);
}

TEST(MemifConfigTest, TheUserSaysRoleAndSocketAndTheRestIsChosen) {
  const auto config = Parse("role=server;socket=/run/x.sock");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->is_server);
  EXPECT_EQ(config->socket, "/run/x.sock");
  EXPECT_EQ(config->id, 0u);
  EXPECT_GE(MemifMtuBytes(*config), 9000u);
}

TEST(MemifConfigTest, WhatTheUserSaysIsKept) {
  const auto config = Parse(
      "role=client;socket=/s;id=7;bsize=5000;rsize=6;secret=x;mac=02:00:00:00:00:09;zero-copy=no");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->is_server);
  EXPECT_EQ(config->id, 7u);
  EXPECT_EQ(config->buffer_bytes, 5000);
  EXPECT_EQ(config->log2_ring_slots, 6);
  EXPECT_EQ(config->secret, "x");
  EXPECT_EQ(config->mac, (Mac{2, 0, 0, 0, 0, 9}));
}

TEST(MemifConfigTest, TheTwoEndsAndOtherSocketsHaveTheirOwnMacsThatStay) {
  const Mac server = Parse("role=server;socket=/a")->mac;
  EXPECT_EQ(server, Parse("role=server;socket=/a")->mac);
  EXPECT_NE(server, Parse("role=client;socket=/a")->mac);
  EXPECT_NE(server, Parse("role=server;socket=/b")->mac);
  EXPECT_NE(server, Parse("role=server;socket=/a;id=1")->mac);
}

TEST(MemifConfigTest, MbufsHoldWhatTheBuffersHold) {
  const std::string end = "role=server;socket=/run/x.sock";
  EXPECT_EQ(RequiredFrameBytes(*Parse(end), 0), 9216u);
  EXPECT_EQ(RequiredFrameBytes(*Parse(end + ";bsize=10000"), 0), 10000u);
}

TEST(MemifConfigTest, EachBadOptionIsNamedWithItsValue) {
  const std::string good = "role=server;socket=/s;";
  const std::pair<std::string, std::string> bad[] = {
      {"socket=/s", "role=... is missing"},
      {"role=server", "socket=: a path is missing"},
      {"role=master;socket=/s", "role=master: server or client"},
      {"role=client;socket=/" + std::string(107, 'x'), "108 characters, at most 107"},
      {good + "bsize=2048", "bsize=2048: bytes of a buffer"},
      {good + "bsize=70000", "4352 to 65407"},
      {good + "rsize=15", "rsize=15"},
      {good + "id=x", "id=x"},
      {good + "secret=" + std::string(24, 's'), "secret=...: at most 23 characters"},
      {good + "mac=01:00:5e:00:00:01", "mac=01:00:5e:00:00:01"},
      {good + "zero-copy=yes", "zero-copy=yes"},
      {good + "socket-abstract=yes", "socket-abstract=yes"},
      {good + "iface=eth0", "unknown key \"iface\""},
  };
  for (const auto& [options, complaint] : bad) {
    const auto config = Parse(options);
    ASSERT_FALSE(config.ok()) << options;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(complaint));
  }
}

}  // namespace
}  // namespace uroce::drivers
