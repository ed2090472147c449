// SPDX-License-Identifier: Apache-2.0
// How many retries a requester has without progress (docs/protocol/transport.md, section 3.3).
#pragma once

#include <cstdint>

namespace uroce::transport {

/// A count of retries that progress refills. Pure.
class RetryBudget {
 public:
  /// Range: 0 to 7.
  void Configure(uint8_t limit) { limit_ = left_ = limit; }
  void Refill() { left_ = limit_; }
  /// False: none is left.
  [[nodiscard]] bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  uint8_t limit() const { return limit_; }
  /// The number of retries taken since the last refill.
  uint8_t taken() const { return static_cast<uint8_t>(limit_ - left_); }

 private:
  uint8_t limit_ = 0;
  uint8_t left_ = 0;
};

}  // namespace uroce::transport
