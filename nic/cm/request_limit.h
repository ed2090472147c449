// SPDX-License-Identifier: Apache-2.0
// A limit on the rate of connection requests from the network. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::nic::cm {

/// So many a second, and a burst of as many as arrive together. What is over is dropped: an honest
/// peer repeats its request.
class RequestLimit {
 public:
  /// Range: both at least 1.
  RequestLimit(uint32_t per_second, uint32_t burst)
      : interval_(1'000'000'000 / per_second), window_(interval_ * (int64_t{burst} - 1)) {}

  /// `now` never goes back. False: one too many.
  bool Take(Nanos now) {
    if (next_ > now + window_) return false;
    next_ = std::max(next_, now) + interval_;
    return true;
  }

 private:
  Nanos interval_;
  Nanos window_;
  Nanos next_{INT64_MIN / 2};  ///< When the next would come if all kept the interval.
};

}  // namespace uroce::nic::cm
