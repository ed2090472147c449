// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/open_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::nic {
namespace {

/// One value in the first bucket, two in the second, three above all bounds.
HistogramSums SomeHistogram() {
  HistogramSums sums{.sum = 50'000};
  sums.counts[0] = 1;
  sums.counts[1] = 2;
  sums.counts.back() = 3;
  return sums;
}

DeviceSnapshot Device(const std::string& name, uint64_t bytes, uint64_t queue_pairs) {
  return {.name = name,
          .counters = {{"port_rcv_bytes", bytes}, {"queue_pairs", queue_pairs}},
          .completion_ns = SomeHistogram(),
          .round_trip_ns = SomeHistogram(),
          .sent_bytes = SomeHistogram(),
          .received_bytes = SomeHistogram()};
}

Snapshot SomeSnapshot() {
  return {.devices = {Device("uroce0", 5, 2), Device("uroce1", 6, 0)},
          .workers = {{.queue_pairs = 2,
                       .received_packets = 1,
                       .sent_packets = 2,
                       .turns = 9,
                       .busy_ms = 1500,
                       .cpu_ms = 1750,
                       .cpu_wait_ms = 250,
                       .involuntary_switches = 7,
                       .longest_turn_us = 2500,
                       .turn_ns = SomeHistogram()}},
          .control = {.turns = 8, .longest_turn_us = 3500, .turn_ns = SomeHistogram()},
          .held = {{"frames", 12}}};
}

ProgramSnapshot SomeProgram(const std::string& name, uint64_t queue_pairs) {
  return {.name = name,
          .pid = 7,
          .session = 1,
          .queue_pairs = queue_pairs,
          .sent_bytes = 1000,
          .received_bytes = 1};
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(OpenMetricsTest, ACounterHasItsTypeUnitAndALineForEachDevice) {
  const std::string text = OpenMetrics(SomeSnapshot(), Audience::kPrivileged);
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
  EXPECT_TRUE(Has(text, "uroce_worker_cpu_seconds_total{worker=\"0\"} 1.75"));
  EXPECT_TRUE(Has(text, "uroce_worker_cpu_wait_seconds_total{worker=\"0\"} 0.25"));
  EXPECT_TRUE(Has(text, "uroce_worker_involuntary_switches_total{worker=\"0\"} 7"));
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
}

TEST(OpenMetricsTest, AHistogramCountsWhatDoesNotExceedEachBound) {
  const std::string text = OpenMetrics(SomeSnapshot(), Audience::kPrivileged);
  EXPECT_TRUE(Has(text, "# TYPE uroce_completion_seconds histogram"));
  EXPECT_TRUE(Has(text, "# UNIT uroce_completion_seconds seconds"));
  EXPECT_TRUE(Has(text,
                  "uroce_completion_seconds_bucket{device=\"uroce0\",le=\"1.024e-06\"} 1\n"
                  "uroce_completion_seconds_bucket{device=\"uroce0\",le=\"2.048e-06\"} 3"))
      << text;
  EXPECT_TRUE(Has(text,
                  "uroce_completion_seconds_bucket{device=\"uroce0\",le=\"0.016777216\"} 3\n"
                  "uroce_completion_seconds_bucket{device=\"uroce0\",le=\"+Inf\"} 6\n"
                  "uroce_completion_seconds_count{device=\"uroce0\"} 6\n"
                  "uroce_completion_seconds_sum{device=\"uroce0\"} 5e-05"))
      << text;
  EXPECT_TRUE(Has(text, "uroce_worker_turn_seconds_count{worker=\"0\"} 6"));
}

TEST(OpenMetricsTest, TurnsOfTheControlThreadHaveNoLabel) {
  const std::string text = OpenMetrics(SomeSnapshot(), Audience::kAnyUser);
  EXPECT_TRUE(Has(text, "uroce_worker_longest_turn_seconds{worker=\"0\"} 0.0025"));
  EXPECT_TRUE(Has(text,
                  "# TYPE uroce_control_longest_turn_seconds gauge\n"
                  "# UNIT uroce_control_longest_turn_seconds seconds"));
  EXPECT_TRUE(Has(text, "uroce_control_longest_turn_seconds 0.0035")) << text;
  EXPECT_TRUE(Has(text,
                  "uroce_control_turn_seconds_bucket{le=\"+Inf\"} 6\n"
                  "uroce_control_turn_seconds_count 6"))
      << text;
}

TEST(OpenMetricsTest, DirectionsOfMessagesAreOneFamily) {
  const std::string text = OpenMetrics(SomeSnapshot(), Audience::kPrivileged);
  const std::string head = "# TYPE uroce_message_bytes histogram";
  EXPECT_TRUE(Has(text, head));
  EXPECT_EQ(text.find(head), text.rfind(head));
  EXPECT_TRUE(
      Has(text, R"(uroce_message_bytes_bucket{device="uroce1",direction="send",le="16"} 1)"));
  EXPECT_TRUE(Has(text, R"(uroce_message_bytes_sum{device="uroce1",direction="receive"} 50000)"));
}

TEST(OpenMetricsTest, NamesOfProgramsAreQuoted) {
  Snapshot snapshot = SomeSnapshot();
  snapshot.programs.push_back(SomeProgram("a\"b\\c\nd", 3));
  EXPECT_TRUE(Has(OpenMetrics(snapshot, Audience::kPrivileged),
                  R"(uroce_program_queue_pairs{program="a\"b\\c\nd",pid="7",session="1"} 3)"));
}

// A user who starts thousands of programs fills no database of time series.
TEST(OpenMetricsTest, ProgramsBeyondTheBoundShareALine) {
  Snapshot snapshot = SomeSnapshot();
  for (size_t i = 0; i < kMaxProgramLabels + 2; ++i) {
    snapshot.programs.push_back(SomeProgram("p" + std::to_string(i), i));
  }
  const std::string text = OpenMetrics(snapshot, Audience::kPrivileged);
  EXPECT_TRUE(Has(text, "uroce_programs 66"));
  EXPECT_TRUE(Has(text, R"(uroce_program_queue_pairs{program="other",pid="",session=""} 1)"));
  EXPECT_TRUE(Has(text, R"(uroce_program_sent_bytes{program="other",pid="",session=""} 2000)"));
  EXPECT_EQ(text.find("program=\"p1\""), std::string::npos) << "of those with fewest queue pairs";
  EXPECT_NE(text.find("program=\"p65\""), std::string::npos);
}

TEST(OpenMetricsTest, AnyUserSeesHowManyProgramsThereAreAndNoneOfThem) {
  Snapshot snapshot = SomeSnapshot();
  snapshot.programs = {SomeProgram("secret", 3)};
  const std::string text = OpenMetrics(snapshot, Audience::kAnyUser);
  EXPECT_TRUE(Has(text, "uroce_programs 1"));
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_EQ(text.find("uroce_program_"), std::string::npos);
}

TEST(OpenMetricsTest, FaultsHaveTheirDirection) {
  Snapshot snapshot = SomeSnapshot();
  snapshot.devices[0].fault_receive = {{"dropped", 4}};
  EXPECT_TRUE(
      Has(OpenMetrics(snapshot, Audience::kPrivileged),
          R"(uroce_fault_frames_total{device="uroce0",direction="receive",kind="dropped"} 4)"));
}

}  // namespace
}  // namespace uroce::nic
