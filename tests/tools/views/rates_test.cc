// SPDX-License-Identifier: Apache-2.0
#include "tools/views/rates.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

// ---- Counters ----

std::string Rates(const std::string& before, const std::string& after, double seconds,
                  const std::string& device = "") {
  const auto text = RenderRates(before, after, seconds, device);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

std::string Dump(const std::string& name, const std::string& counters) {
  return R"({"devices": [{"name": ")" + name + R"(", "counters": {)" + counters + "}}]}";
}

TEST(RatesTest, ChangesArePerIntervalAndRatesPerSecond) {
  EXPECT_EQ(Rates(Dump("a", R"("packets": 100, "rcv_bytes": 0, "same": 7)"),
                  Dump("a", R"("packets": 4100, "rcv_bytes": 500000000, "same": 7)"), 2),
            "2.0 s\n"
            "device  counter    change     rate\n"
            "a       packets         4000  2 k/s\n"
            "a       rcv_bytes  500000000  2 Gb/s\n");
}

TEST(RatesTest, CountersOfARestartedDaemonCountFromZero) {
  EXPECT_EQ(Rates(Dump("a", R"("packets": 100)"), Dump("a", R"("packets": 30)"), 1),
            "1.0 s\ndevice  counter  change  rate\na       packets      30  30 /s\n");
}

TEST(RatesTest, PortsOfSwitchesFollowWithTheirQueuesAsTheyAre) {
  const auto dump = [](int queue_bytes, int marks) {
    return R"({"devices": [], "switch_ports": [{"name": "sw0:1", "leads_to": "b", "rate_bps": 7,
               "queue_bytes": )" +
           std::to_string(queue_bytes) + R"(, "ecn_marks": )" + std::to_string(marks) + "}]}";
  };
  EXPECT_EQ(Rates(dump(5, 10), dump(6, 12), 1),
            "1.0 s\n"
            "device  counter      change  rate\n"
            "sw0:1   queue_bytes       6\n"
            "sw0:1   ecn_marks         2  2 /s\n");
  EXPECT_EQ(Rates(dump(5, 10), dump(0, 12), 1, "a"), "1.0 s\nnothing counted\n");
}

TEST(RatesTest, NewCounterOrDeviceCountsFromZero) {
  EXPECT_EQ(Rates(Dump("b", R"("packets": 100)"), Dump("a", R"("packets": 30)"), 1),
            "1.0 s\ndevice  counter  change  rate\na       packets      30  30 /s\n");
}

TEST(RatesTest, NumberOfQueuePairsIsNoCounter) {
  EXPECT_EQ(Rates(Dump("a", R"("queue_pairs": 1)"), Dump("a", R"("queue_pairs": 5)"), 1),
            "1.0 s\nnothing counted\n");
}

TEST(RatesTest, OtherDevicesAreLeftOut) {
  EXPECT_EQ(Rates(Dump("a", R"("packets": 1)"), Dump("a", R"("packets": 5)"), 1, "b"),
            "1.0 s\nnothing counted\n");
}

TEST(RatesTest, BrokenDumpIsAnError) {
  EXPECT_FALSE(RenderRates("{", "{}", 1, "").ok());
  EXPECT_FALSE(RenderRates("{}", "{", 1, "").ok());
}

TEST(RatesTest, NumbersHaveThreeDigitsAndAPrefix) {
  EXPECT_EQ(ScaledText(0, "/s"), "0 /s");
  EXPECT_EQ(ScaledText(999, "/s"), "999 /s");
  EXPECT_EQ(ScaledText(999.9, "/s"), "1 k/s");
  EXPECT_EQ(ScaledText(12345678, "b/s"), "12.3 Mb/s");
  EXPECT_EQ(ScaledText(5e15, "b/s"), "5e+03 Tb/s");
}

// ---- Programs and queue pairs ----

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

TEST(TopTest, ANumberThatIsUsedAgainCountsFromZero) {
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
