// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/runs.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace uroce::tools::sim {
namespace {

Nanos NowOfClock() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

absl::StatusOr<std::vector<Comparison>> RunAll(
    const ScenarioText& scenario, const std::vector<Override>& overrides, const Sweep& sweep,
    uint32_t repeats, const std::function<void(uint32_t done, uint32_t all)>& on_run) {
  std::vector<std::string> values = sweep.values;
  if (values.empty()) values.emplace_back();
  std::vector<RunPlan> plans;
  std::vector<Comparison> comparisons;
  for (const std::string& value : values) {
    std::vector<Override> all = overrides;
    if (!sweep.key.empty()) all.emplace_back(sweep.key, value);
    const absl::StatusOr<RunPlan> first = PlanOf(scenario, all);
    if (!first.ok()) return first.status();
    for (uint32_t i = 0; i < repeats; ++i) {
      std::vector<Override> seeded = all;
      seeded.emplace_back("seed", absl::StrCat(first->seed + i));
      absl::StatusOr<RunPlan> plan = PlanOf(scenario, seeded);
      if (!plan.ok()) return plan.status();
      plans.push_back(*std::move(plan));
    }
    comparisons.push_back({sweep.key.empty() ? "" : absl::StrCat(sweep.key, "=", value), {}});
    comparisons.back().runs.resize(repeats);
  }
  std::atomic<size_t> next = 0;
  std::mutex lock;
  uint32_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < plans.size(); i = next++) {
      Results results = Run(plans[i], {});
      const std::lock_guard<std::mutex> held(lock);
      comparisons[i / repeats].runs[i % repeats] = std::move(results);
      on_run(++done, static_cast<uint32_t>(plans.size()));
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads(std::min(cores, plans.size()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  return comparisons;
}

// ---- progress ----

ProgressLine::ProgressLine(Nanos duration)
    : duration_(duration), is_terminal_(isatty(STDERR_FILENO) == 1), began_(NowOfClock()) {}

ProgressLine::~ProgressLine() {
  if (is_terminal_ && shown_ != Nanos(0)) fputs("\r\033[K", stderr);
}

bool ProgressLine::IsDue() {
  constexpr Nanos kInterval{200'000'000};
  if (!is_terminal_) return false;
  const Nanos now = NowOfClock();
  if (now - shown_ < kInterval) return false;
  shown_ = now;
  return true;
}

void ProgressLine::Show(const RunProgress& progress) {
  if (!IsDue()) return;
  const double seconds = static_cast<double>((shown_ - began_).count()) / 1e9;
  const std::string line = absl::StrFormat(
      "\r%3d %% of %.3f ms, %.1f M packet events, %.2f M/s, flows: %d running, %d ended\033[K",
      100 * progress.now.count() / duration_.count(), static_cast<double>(duration_.count()) / 1e6,
      static_cast<double>(progress.packet_events) / 1e6,
      static_cast<double>(progress.packet_events) / 1e6 / std::max(seconds, 1e-3),
      progress.running_flows, progress.ended_flows);
  fputs(line.c_str(), stderr);
}

void ProgressLine::ShowRuns(uint32_t done, uint32_t all) {
  if (IsDue()) fputs(absl::StrCat("\rrun ", done, " of ", all, "\033[K").c_str(), stderr);
}

}  // namespace uroce::tools::sim
