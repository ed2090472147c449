// SPDX-License-Identifier: Apache-2.0
#include "tools/views/rates.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

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

TEST(RatesTest, CountersOfADaemonStartedAnewCountFromZero) {
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

}  // namespace
}  // namespace uroce::tools
