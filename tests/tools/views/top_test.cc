// SPDX-License-Identifier: Apache-2.0
#include "tools/views/rates.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

std::string QueuePair(int pid, int qpn, uint64_t sent, uint64_t received) {
  return R"({"device": "uroce0", "pid": )" + std::to_string(pid) + R"(, "program": "p)" +
         std::to_string(pid) + R"(", "qpn": )" + std::to_string(qpn) +
         R"(, "type": "RC", "state": "RTS", "remote": "10.0.0.2", "sent_packets": 0,)"
         R"("received_packets": 0, "sent_bytes": )" +
         std::to_string(sent) + R"(, "received_bytes": )" + std::to_string(received) + "}";
}

std::string Dump(const std::string& queue_pairs) { return R"({"qps": [)" + queue_pairs + "]}"; }

std::string Top(const std::string& before, const std::string& after, double seconds,
                const Selection& select = {}) {
  const auto text = RenderTop(before, after, seconds, select);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

TEST(TopTest, TheBusiestStandFirst) {
  const std::string text =
      Top(Dump(QueuePair(1, 17, 0, 0) + "," + QueuePair(2, 18, 500, 0)),
          Dump(QueuePair(1, 17, 250, 0) + "," + QueuePair(2, 18, 500, 500)), 2);
  EXPECT_EQ(text.substr(0, text.find('\n')), "2 programs, 2 queue pairs, 2.0 s");
  EXPECT_LT(text.find("p2"), text.find("p1"));
  EXPECT_LT(text.find("0x000012"), text.find("0x000011"));
  EXPECT_NE(text.find("1 kb/s"), std::string::npos) << text;
  EXPECT_NE(text.find("2 kb/s"), std::string::npos) << text;
}

TEST(TopTest, QueuePairsOfAProgramAreAddedUp) {
  const std::string text =
      Top(Dump(""), Dump(QueuePair(1, 17, 1000, 0) + "," + QueuePair(1, 18, 1000, 0)), 1);
  EXPECT_EQ(text.substr(0, text.find('\n')), "1 program, 2 queue pairs, 1.0 s");
  EXPECT_NE(text.find("16 kb/s"), std::string::npos) << text;
}

TEST(TopTest, ANumberThatWasMadeAnewCountsFromZero) {
  const std::string text = Top(Dump(QueuePair(1, 17, 9000, 0)), Dump(QueuePair(1, 17, 1000, 0)), 1);
  EXPECT_NE(text.find("8 kb/s"), std::string::npos) << text;
}

TEST(TopTest, WhatIsNotSelectedIsLeftOut) {
  const std::string dump = Dump(QueuePair(1, 17, 0, 0) + "," + QueuePair(2, 18, 0, 0));
  Selection select;
  select.pid = 2;
  const std::string text = Top(dump, dump, 1, select);
  EXPECT_EQ(text.find("p1"), std::string::npos) << text;
  EXPECT_NE(text.find("p2"), std::string::npos) << text;
}

}  // namespace
}  // namespace uroce::tools
