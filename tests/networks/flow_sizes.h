// SPDX-License-Identifier: Apache-2.0
// The sizes of flows that data centres were seen to have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::networks {

/// A point of a distribution: `part` of the flows have at most `bytes`.
struct FlowSize {
  double bytes = 0;
  double part = 0;
};

/// Web search: M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, at the points that the
/// public HPCC simulator takes (traffic_gen/WebSearch_distribution.txt). Linear between them.
inline constexpr std::array<FlowSize, 12> kWebSearch = {{{0, 0},
                                                         {10e3, 0.15},
                                                         {20e3, 0.20},
                                                         {30e3, 0.30},
                                                         {50e3, 0.40},
                                                         {80e3, 0.53},
                                                         {200e3, 0.60},
                                                         {1e6, 0.70},
                                                         {2e6, 0.80},
                                                         {5e6, 0.90},
                                                         {10e6, 0.97},
                                                         {30e6, 1}}};

/// The size that `part` of the flows have at most. Range: 0 to 1.
constexpr double SizeAt(double part) {
  for (size_t i = 1; i < kWebSearch.size(); ++i) {
    const FlowSize &from = kWebSearch[i - 1], &to = kWebSearch[i];
    if (part <= to.part) {
      return from.bytes + (part - from.part) / (to.part - from.part) * (to.bytes - from.bytes);
    }
  }
  return kWebSearch.back().bytes;
}

constexpr double MeanSize() {
  double mean = 0;
  for (size_t i = 1; i < kWebSearch.size(); ++i) {
    const FlowSize &from = kWebSearch[i - 1], &to = kWebSearch[i];
    mean += (to.part - from.part) * (from.bytes + to.bytes) / 2;
  }
  return mean;
}

}  // namespace uroce::networks
