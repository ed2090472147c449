// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/contention.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/client/control_client.h"
#include "tools/views/dump_member.h"

namespace uroce::tools {
namespace {

using Json = nlohmann::ordered_json;

// Less is usual where other programs run now and then.
constexpr uint64_t kMuchWaitMs = 1000;
constexpr double kMuchShare = 0.1;

double WaitShare(const WorkerShare& worker) {
  const auto ready = static_cast<double>(worker.cpu_ms + worker.cpu_wait_ms);
  return ready == 0 ? 0 : static_cast<double>(worker.cpu_wait_ms) / ready;
}

Finding CheckWorker(const WorkerShare& worker, const ContentionFacts& facts) {
  const double waited_s = static_cast<double>(worker.cpu_wait_ms) / 1000;
  if (worker.cpu_wait_ms < kMuchWaitMs || WaitShare(worker) < kMuchShare) {
    return {Level::kOk, "cpu",
            absl::StrFormat("worker %d has waited %.1f s for a CPU, and run %.1f s", worker.worker,
                            waited_s, static_cast<double>(worker.cpu_ms) / 1000),
            ""};
  }
  const std::string text = absl::StrFormat(
      "worker %d had no CPU for %.1f %% of the time that it could have run: %.1f s, %d times taken "
      "from it",
      worker.worker, WaitShare(worker) * 100, waited_s, worker.involuntary_switches);
  if (facts.workers.size() > facts.processors) {
    return {Level::kNote, "cpu",
            absl::StrCat(text, "; ", facts.workers.size(), " workers share ", facts.processors,
                         " CPUs"),
            absl::StrCat("uroced --workers ", facts.processors)};
  }
  return {Level::kNote, "cpu",
          absl::StrCat(text, "; other programs use the CPUs, which it can be put before"),
          absl::StrCat("sudo renice -n -5 -p $(ls /proc/", facts.daemon, "/task)")};
}

}  // namespace

void ParseWorkers(const std::string& json, ContentionFacts& facts) {
  const Json dump = Json::parse(json, nullptr, false);
  if (!dump.is_object() || !dump.contains("workers") || !dump["workers"].is_array()) return;
  for (const Json& worker : dump["workers"]) {
    if (!worker.is_object() || !worker.contains("cpu_wait_ms")) continue;
    facts.workers.push_back({.worker = static_cast<uint32_t>(NumberOf(worker, "worker")),
                             .cpu_ms = NumberOf(worker, "cpu_ms"),
                             .cpu_wait_ms = NumberOf(worker, "cpu_wait_ms"),
                             .involuntary_switches = NumberOf(worker, "involuntary_switches")});
  }
}

ContentionFacts ReadContention(const std::string& socket_path, pid_t daemon) {
  ContentionFacts facts{.daemon = daemon, .processors = std::thread::hardware_concurrency()};
  const absl::StatusOr<std::string> dump = FetchDump(socket_path, UROCE_DUMP_STAT);
  if (dump.ok()) ParseWorkers(*dump, facts);
  return facts;
}

Findings CheckContention(const ContentionFacts& facts) {
  Findings findings;
  for (const WorkerShare& worker : facts.workers) findings.push_back(CheckWorker(worker, facts));
  return findings;
}

}  // namespace uroce::tools
