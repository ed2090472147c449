// SPDX-License-Identifier: Apache-2.0
// Limits the rate of connection requests from the network. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::nic::cm {

/// Allows a number of requests per second, and a burst of requests that arrive together. Requests
/// above that are dropped: a well-behaved peer repeats them.
class RequestLimit {
 public:
  /// Range: both at least 1.
  RequestLimit(uint32_t per_second, uint32_t burst)
      : interval_(1'000'000'000 / per_second), window_(interval_ * (int64_t{burst} - 1)) {}

  /// `now` never goes back. False: the request is above the limit.
  bool Take(Nanos now) {
    if (next_ > now + window_) return false;
    next_ = std::max(next_, now) + interval_;
    return true;
  }

 private:
  Nanos interval_;
  Nanos window_;
  Nanos next_{INT64_MIN / 2};  ///< The time of the next request if all kept the interval.
};

}  // namespace uroce::nic::cm
