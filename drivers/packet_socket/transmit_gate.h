// SPDX-License-Identifier: Apache-2.0
// When a socket that the kernel had no room for is tried again, and when its frames are given up.
#pragma once

#include "pipeline/base/types.h"

namespace uroce::drivers {

/// One thread.
class TransmitGate {
 public:
  /// A socket or queue of the kernel that was full is tried again after this time.
  static constexpr Nanos kTryAgain{20'000};
  /// After this time of refusals frames are dropped: the interface or host does not send.
  static constexpr Nanos kRefusalLimit{1'000'000'000};

  /// Whether frames may be given to the kernel.
  bool is_open() const { return try_again_at_ == kNever; }
  /// When a closed gate opens; kNever for an open one.
  Nanos opens_at() const { return try_again_at_; }
  /// Opens the gate if it is time.
  void Advance(Nanos now) {
    if (try_again_at_ <= now) try_again_at_ = kNever;
  }
  /// The kernel has taken frames, if `took_some`, and refused the next one, if `is_full`, which
  /// closes the gate. True: it has taken none for so long that the frames are to be dropped.
  [[nodiscard]] bool GivesUp(bool took_some, bool is_full, Nanos now) {
    if (took_some || !is_full) refused_since_ = kNever;
    if (!is_full) return false;
    if (refused_since_ == kNever) refused_since_ = now;
    if (now - refused_since_ >= kRefusalLimit) return true;
    try_again_at_ = now + kTryAgain;
    return false;
  }

 private:
  Nanos try_again_at_ = kNever;
  Nanos refused_since_ = kNever;
};

}  // namespace uroce::drivers
