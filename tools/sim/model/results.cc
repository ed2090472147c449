// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/model/results.h"

#include <algorithm>
#include <cmath>

namespace uroce::tools::sim {

Quantiles QuantilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto count = values.size();
  // Thousandths, so that no rounding of a product decides.
  const auto at = [&](uint64_t thousandths) {
    const uint64_t rank = (thousandths * count + 999) / 1000;
    return values[rank == 0 ? 0 : rank - 1];
  };
  double sum = 0;
  for (const double each : values) sum += each;
  return {.count = count,
          .mean = sum / static_cast<double>(count),
          .p50 = at(500),
          .p99 = at(990),
          .p999 = at(999),
          .most = values.back()};
}

double JainIndex(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

}  // namespace uroce::tools::sim
