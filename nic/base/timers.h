// SPDX-License-Identifier: Apache-2.0
// Time and timers of one thread: the event loop has them, and tests that set the time.
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
  /// Monotonic.
  virtual Nanos Now() const = 0;
  /// Calls `callback` once, after `delay`, and never from within this call. Ids are never 0.
  virtual Id After(Nanos delay, std::function<void()> callback) = 0;
  /// Of a timer that has fired, or 0: does nothing.
  virtual void Cancel(Id id) = 0;
};

}  // namespace uroce
