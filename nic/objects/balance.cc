// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/balance.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace uroce::nic {
namespace {

// The busiest worker needs help from this share on.
constexpr double kBusy = 0.75;
// A move leaves the busier of the two workers this share of what the busiest one had, at most.
constexpr double kWorthwhile = 0.8;

}  // namespace

std::optional<WorkerMove> FindImbalance(std::span<const double> busy, uint32_t cpus) {
  if (busy.size() < 2) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(busy);
  if (*most < kBusy || *least > *most / 2) return std::nullopt;
  const auto in_use = std::ranges::count_if(busy, [](double share) { return share > 0.5; });
  if (static_cast<uint32_t>(in_use) >= cpus) return std::nullopt;
  return WorkerMove{.from = static_cast<uint32_t>(most - busy.begin()),
                    .to = static_cast<uint32_t>(least - busy.begin())};
}

std::vector<size_t> RankMoves(std::span<const double> costs, double from, double to) {
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<std::pair<double, size_t>> ranked;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] <= 0) continue;
    const double moved = from * costs[i] / sum;
    const double left = std::max(from - moved, to + moved);
    if (left <= from * kWorthwhile) ranked.emplace_back(left, i);
  }
  std::ranges::sort(ranked);
  std::vector<size_t> order;
  for (const auto& [left, index] : ranked) order.push_back(index);
  return order;
}

}  // namespace uroce::nic
