// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/networks/completion_table.h"

#include <chrono>
#include <cstdio>
#include <memory>

namespace uroce::networks {
namespace {

/// What hpcc-group.github.io shows for DCQCN with a window ("DCQCN+w"): web search at 50 % load,
/// ns-3, 320 NICs of 100 Gb/s in a fat tree of 400 Gb/s, PFC; read from the figures at the middle
/// of each tenth of the flows, to some 3 %. No means are published.
struct Published {
  double p50, p95, p99;
};
constexpr Published kPublished[] = {
    {1.26, 4.65, 7.0}, {1.42, 4.55, 6.6}, {1.63, 4.5, 6.3},  {1.80, 4.45, 6.0}, {1.97, 4.45, 5.9},
    {2.12, 4.6, 6.0},  {2.75, 8.1, 12.0}, {2.90, 7.6, 11.0}, {3.05, 7.3, 10.0}, {3.15, 6.7, 9.2}};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string SizeName(uint32_t bytes) {
  return bytes >= 1'000'000 ? std::to_string(bytes / 1'000'000) + " MB"
                            : std::to_string((bytes + 500) / 1'000) + " KB";
}

void PrintRow(const std::string& name, const std::string& size, const SizeClass& row) {
  std::printf("| %s | %s | %llu | %.2f | %.2f | %.2f | %.2f |\n", size.c_str(), name.c_str(),
              static_cast<unsigned long long>(row.flows), row.mean, row.p50, row.p95, row.p99);
}

void PrintCsv(std::FILE* file, const std::string& name, const SizeClass& row) {
  std::fprintf(file, "\"%s\",%u,%llu,%.4f,%.4f,%.4f,%.4f\n", name.c_str(), row.most_bytes,
               static_cast<unsigned long long>(row.flows), row.mean, row.p50, row.p95, row.p99);
}

}  // namespace

bool CompletionTable(const std::vector<Candidate>& candidates, const CompletionOptions& options) {
  std::unique_ptr<std::FILE, Close> csv;
  if (!options.csv.empty()) {
    csv.reset(std::fopen(options.csv.c_str(), "w"));
    if (csv == nullptr) return false;
    std::fprintf(csv.get(), "profile,most_bytes,flows,mean,p50,p95,p99\n");
  }
  std::vector<CompletionTimes> results;
  for (const auto& [name, settings] : candidates) {
    const auto began = std::chrono::steady_clock::now();
    NetworkConfig config = options.tree.Config(settings);
    config.mtu_bytes = options.mtu_bytes;
    results.push_back(RunCompletionTimes(options.tree, config, options.load));
    const CompletionTimes& result = results.back();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf(
        "%s: %llu flows, %llu unfinished, %llu failed, lost %.4f %%, %llu pauses, %.1f s%s\n",
        name.c_str(), static_cast<unsigned long long>(result.all.flows),
        static_cast<unsigned long long>(result.unfinished),
        static_cast<unsigned long long>(result.failed), result.lost * 100,
        static_cast<unsigned long long>(result.pauses), took.count(),
        result.lost_slots == 0 ? "" : ", frames without room: of no use");
    std::fflush(stdout);
    if (csv == nullptr) continue;
    for (const SizeClass& row : result.sizes) PrintCsv(csv.get(), name, row);
  }
  std::printf("\n| flows up to | profile | flows | mean | p50 | p95 | p99 |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < std::size(kPublished); ++i) {
    const uint32_t most_bytes = results.front().sizes[i].most_bytes;
    for (size_t j = 0; j < candidates.size(); ++j) {
      PrintRow(candidates[j].name, SizeName(most_bytes), results[j].sizes[i]);
    }
    std::printf("| %s | published DCQCN | | | %.2f | %.2f | %.2f |\n", SizeName(most_bytes).c_str(),
                kPublished[i].p50, kPublished[i].p95, kPublished[i].p99);
  }
  for (size_t j = 0; j < candidates.size(); ++j) {
    PrintRow(candidates[j].name, "all", results[j].all);
  }
  return true;
}

}  // namespace uroce::networks
