// SPDX-License-Identifier: Apache-2.0
// Log lines that a stranger can cause: not as many as he likes.
#pragma once

#include "pipeline/base/types.h"

namespace uroce::nic {

/// One line in each interval. One thread.
class LogLimit {
 public:
  explicit LogLimit(Nanos interval) : interval_(interval) {}

  bool MayLog(Nanos now) {
    if (now < next_) return false;
    next_ = now + interval_;
    return true;
  }

 private:
  Nanos interval_;
  Nanos next_{0};
};

}  // namespace uroce::nic
