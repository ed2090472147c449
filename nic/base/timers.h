// SPDX-License-Identifier: Apache-2.0
// Time and timers of one thread. The event loop implements them, and so do tests that set the time.
#pragma once

#include <cstdint>
#include <functional>

#include "pipeline/base/types.h"

namespace uroce {

/// One thread. Callbacks may start and cancel any timer.
class Timers {
 public:
  using Id = uint64_t;

  virtual ~Timers() = default;
  /// The monotonic time.
  virtual Nanos Now() const = 0;
  /// Calls `callback` once, after `delay`, and never from within this call. Ids are never 0.
  virtual Id After(Nanos delay, std::function<void()> callback) = 0;
  /// Cancels a timer. No effect on one that has fired, or on 0.
  virtual void Cancel(Id id) = 0;
};

}  // namespace uroce
