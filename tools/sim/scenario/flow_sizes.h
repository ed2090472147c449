// SPDX-License-Identifier: Apache-2.0
// The sizes of flows that data centres were seen to have.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace uroce::tools::sim {

/// A point of a distribution: `part` of the flows have at most `bytes`. Linear between the points.
struct FlowSize {
  double bytes = 0;
  double part = 0;
};

/// Web search: M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, at the points that the
/// public HPCC simulator takes (traffic_gen/WebSearch_distribution.txt).
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

/// Hadoop: A. Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015, at the
/// points of the HPCC simulator (traffic_gen/FbHdp_distribution.txt).
inline constexpr std::array<FlowSize, 20> kHadoop = {
    {{0, 0},        {100, 0.01},   {200, 0.02},  {300, 0.05},  {350, 0.15},
     {400, 0.20},   {500, 0.30},   {600, 0.40},  {700, 0.50},  {1000, 0.60},
     {2000, 0.67},  {7000, 0.70},  {30e3, 0.72}, {50e3, 0.82}, {80e3, 0.87},
     {120e3, 0.90}, {300e3, 0.95}, {1e6, 0.975}, {2e6, 0.99},  {10e6, 1}}};

/// Storage: the block storage of a cloud, at the points of the HPCC simulator
/// (traffic_gen/AliStorage2019.txt).
inline constexpr std::array<FlowSize, 9> kStorage = {{{0, 0},
                                                      {4e3, 0.2293},
                                                      {8e3, 0.6921},
                                                      {16e3, 0.8061},
                                                      {32e3, 0.9047},
                                                      {64e3, 0.9353},
                                                      {128e3, 0.9677},
                                                      {256e3, 0.9753},
                                                      {2e6, 1}}};

/// The size that `part` of the flows have at most. Range: 0 to 1.
constexpr double SizeAt(std::span<const FlowSize> sizes, double part) {
  for (size_t i = 1; i < sizes.size(); ++i) {
    const FlowSize &from = sizes[i - 1], &to = sizes[i];
    if (part <= to.part) {
      return from.bytes + (part - from.part) / (to.part - from.part) * (to.bytes - from.bytes);
    }
  }
  return sizes.back().bytes;
}

constexpr double MeanSize(std::span<const FlowSize> sizes) {
  double mean = 0;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const FlowSize &from = sizes[i - 1], &to = sizes[i];
    mean += (to.part - from.part) * (from.bytes + to.bytes) / 2;
  }
  return mean;
}

/// "websearch", "hadoop", "storage". Empty: there is no such distribution.
constexpr std::span<const FlowSize> FlowSizesOf(std::string_view name) {
  if (name == "websearch") return kWebSearch;
  if (name == "hadoop") return kHadoop;
  if (name == "storage") return kStorage;
  return {};
}

}  // namespace uroce::tools::sim
