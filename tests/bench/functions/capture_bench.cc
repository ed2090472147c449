// SPDX-License-Identifier: Apache-2.0
// Measures the cost of captures for a worker: WRITEs of 64 KiB over the in-process wire, with and
// without a capture, in turns of a fraction of a millisecond each, so that other load disturbs both
// alike. The tool's side costs nothing here; tests/bench/run-capture measures programs and the tool
// together.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/functions/wire_loop.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kMessageBytes = 64 << 10;
constexpr uint32_t kDepth = 16;
constexpr uint32_t kMessages = 48;
constexpr int kRounds = 1000;
// Packets of a message, and its ACK, are seen at both ends.
constexpr double kRecords = kMessages * (kMessageBytes / 4096 + 1) * 2;

using Clock = std::chrono::steady_clock;

double MicrosecondsOf(WireLoop& loop) {
  const auto begin = Clock::now();
  loop.Move(WireLoop::kWrite, kMessageBytes, kDepth, kMessages);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Run() {
  constexpr std::array<uint32_t, 3> kSnapBytes = {0, 128, 65535};
  std::array<WireLoop, 3> loops = {WireLoop(kMessageBytes), WireLoop(kMessageBytes),
                                   WireLoop(kMessageBytes)};
  std::array<std::vector<double>, 3> times;
  for (size_t i = 1; i < loops.size(); ++i) loops[i].Capture(kSnapBytes[i]);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < loops.size(); ++i) times[i].push_back(MicrosecondsOf(loops[i]));
  }
  const double without = Median(times[0]);
  printf("%-12s %10s %12s %12s\n", "capture", "Gb/s", "of without", "ns a record");
  for (size_t i = 0; i < loops.size(); ++i) {
    const double median = Median(times[i]);
    const std::string name = i == 0 ? "none" : "-s " + std::to_string(kSnapBytes[i]);
    printf("%-12s %10.1f %11.1f%% %12.1f\n", name.c_str(),
           kMessages * kMessageBytes * 8 / median / 1e3, 100 * without / median,
           (median - without) * 1e3 / kRecords);
  }
}

}  // namespace
}  // namespace uroce::datapath

int main() { uroce::datapath::Run(); }
