// SPDX-License-Identifier: Apache-2.0
#include "pipeline/fabric/routes.h"

namespace uroce::fabric {
namespace {

constexpr uint32_t kUnreached = UINT32_MAX;

}  // namespace

Routes::Routes(uint32_t switches, std::span<const RouteEdge> edges)
    : switches_(switches),
      next_links_(size_t{switches} * switches),
      tree_links_(size_t{switches} * switches) {
  for (uint32_t target = 0; target < switches; ++target) {
    const std::vector<uint32_t> distances = DistancesTo(target, edges);
    for (const RouteEdge& edge : edges) {
      if (distances[edge.to] == kUnreached || distances[edge.from] != distances[edge.to] + 1)
        continue;
      next_links_[Index(edge.from, target)].push_back(edge.link);
    }
    AddTree(target, edges);
  }
}

std::vector<uint32_t> Routes::DistancesTo(uint32_t target, std::span<const RouteEdge> edges) const {
  std::vector<uint32_t> distances(switches_, kUnreached);
  std::vector<uint32_t> reached{target};
  distances[target] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const RouteEdge& edge : edges) {
      if (edge.to != reached[i] || distances[edge.from] != kUnreached) continue;
      distances[edge.from] = distances[edge.to] + 1;
      reached.push_back(edge.from);
    }
  }
  return distances;
}

/// Adds the tree of `root`: the first link that reaches each switch.
void Routes::AddTree(uint32_t root, std::span<const RouteEdge> edges) {
  std::vector<bool> is_reached(switches_);
  std::vector<uint32_t> reached{root};
  is_reached[root] = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const RouteEdge& edge : edges) {
      if (edge.from != reached[i] || is_reached[edge.to]) continue;
      is_reached[edge.to] = true;
      reached.push_back(edge.to);
      tree_links_[Index(root, edge.from)].push_back(edge.link);
    }
  }
}

}  // namespace uroce::fabric
