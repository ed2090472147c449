// SPDX-License-Identifier: Apache-2.0
// Shortest paths between the switches of a fabric.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace uroce::fabric {

/// One direction of a link between two switches.
struct RouteEdge {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t link = 0;
};

/// Distance is the number of links. A value: it is computed anew when a link goes down or up.
class Routes {
 public:
  Routes() = default;
  Routes(uint32_t switches, std::span<const RouteEdge> edges);

  /// The links from `at` on shortest paths to `target`, another switch; empty without a path.
  std::span<const uint32_t> NextLinks(uint32_t at, uint32_t target) const {
    return next_links_[Index(at, target)];
  }
  /// The links by which `at` forwards frames from `root` to all hosts: a tree for each root.
  std::span<const uint32_t> TreeLinks(uint32_t root, uint32_t at) const {
    return tree_links_[Index(root, at)];
  }

 private:
  size_t Index(uint32_t first, uint32_t second) const { return size_t{first} * switches_ + second; }
  std::vector<uint32_t> DistancesTo(uint32_t target, std::span<const RouteEdge> edges) const;
  void AddTree(uint32_t root, std::span<const RouteEdge> edges);

  uint32_t switches_ = 0;
  std::vector<std::vector<uint32_t>> next_links_;
  std::vector<std::vector<uint32_t>> tree_links_;
};

}  // namespace uroce::fabric
