// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/open_metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

Json Statistics() {
  return {{"devices",
           {{{"name", "uroce0"}, {"counters", {{"port_rcv_bytes", 5u}, {"queue_pairs", 2u}}}},
            {{"name", "uroce1"}, {"counters", {{"port_rcv_bytes", 6u}, {"queue_pairs", 0u}}}}}},
          {"workers",
           {{{"worker", 0},
             {"queue_pairs", 2},
             {"port_rcv_packets", 1},
             {"port_xmit_packets", 2},
             {"handed_over", 0},
             {"turns", 9},
             {"busy_ms", 1500}}}},
          {"held", {{"frames", 12}}},
          {"programs", Json::array()}};
}

Json Program(const std::string& name, uint64_t queue_pairs) {
  return {{"program", name},    {"pid", 7},           {"session", 1}, {"queue_pairs", queue_pairs},
          {"sent_bytes", 1000}, {"received_bytes", 1}};
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(OpenMetricsTest, ACounterHasItsTypeUnitAndALineForEachDevice) {
  const std::string text = OpenMetrics(Statistics());
  EXPECT_TRUE(Has(text,
                  "# TYPE uroce_port_rcv_bytes counter\n"
                  "# UNIT uroce_port_rcv_bytes bytes\n"
                  "# HELP uroce_port_rcv_bytes Bytes of these packets, with all headers\n"
                  "uroce_port_rcv_bytes_total{device=\"uroce0\"} 5\n"
                  "uroce_port_rcv_bytes_total{device=\"uroce1\"} 6"))
      << text;
  EXPECT_TRUE(Has(text, "# TYPE uroce_queue_pairs gauge"));
  EXPECT_TRUE(Has(text, "uroce_queue_pairs{device=\"uroce1\"} 0"));
  EXPECT_TRUE(Has(text, "uroce_worker_busy_seconds_total{worker=\"0\"} 1.5"));
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
}

TEST(OpenMetricsTest, NamesOfProgramsAreQuoted) {
  Json statistics = Statistics();
  statistics["programs"].push_back(Program("a\"b\\c\nd", 3));
  EXPECT_TRUE(Has(OpenMetrics(statistics),
                  R"(uroce_program_queue_pairs{program="a\"b\\c\nd",pid="7",session="1"} 3)"));
}

// Whoever starts thousands of programs fills no database of time series.
TEST(OpenMetricsTest, ProgramsBeyondTheBoundShareALine) {
  Json statistics = Statistics();
  for (size_t i = 0; i < kMaxProgramLabels + 2; ++i) {
    statistics["programs"].push_back(Program("p" + std::to_string(i), i));
  }
  const std::string text = OpenMetrics(statistics);
  EXPECT_TRUE(Has(text, "uroce_programs 66"));
  EXPECT_TRUE(Has(text, R"(uroce_program_queue_pairs{program="other",pid="",session=""} 1)"));
  EXPECT_TRUE(Has(text, R"(uroce_program_sent_bytes{program="other",pid="",session=""} 2000)"));
  EXPECT_EQ(text.find("program=\"p1\""), std::string::npos) << "of those with fewest queue pairs";
  EXPECT_NE(text.find("program=\"p65\""), std::string::npos);
}

TEST(OpenMetricsTest, FaultsHaveTheirDirection) {
  Json statistics = Statistics();
  statistics["devices"][0]["fault_receive"] = {{"dropped", 4}};
  EXPECT_TRUE(
      Has(OpenMetrics(statistics),
          R"(uroce_fault_frames_total{device="uroce0",direction="receive",kind="dropped"} 4)"));
}

}  // namespace
}  // namespace uroce::nic
