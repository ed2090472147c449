// SPDX-License-Identifier: Apache-2.0
// Histograms as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "pipeline/base/histogram.h"

namespace uroce::nic {

/// {"bounds": [...], "counts": [...], "sum": n}: `counts` has one more, of values above all bounds.
inline nlohmann::ordered_json HistogramJson(const HistogramShape& shape,
                                            const HistogramSums& sums) {
  nlohmann::ordered_json bounds = nlohmann::ordered_json::array();
  for (uint32_t i = 0; i < HistogramShape::kBounds; ++i) bounds.push_back(shape.BoundOf(i));
  return {{"bounds", bounds}, {"counts", sums.counts}, {"sum", sums.sum}};
}

}  // namespace uroce::nic
