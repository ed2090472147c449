// SPDX-License-Identifier: Apache-2.0
// How long a thread was ready to run, but had no CPU.
#pragma once

#include "pipeline/base/types.h"

namespace uroce::datapath {

/// Reads /proc/thread-self/schedstat, which takes a microsecond. Where the kernel has no such file,
/// every time is 0. Used by one thread, which is also the one that calls Open.
class RunDelay {
 public:
  RunDelay() = default;
  ~RunDelay();
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  /// From now on the times are those of the calling thread.
  void Open();
  /// The time in which the thread has waited for a CPU since it began.
  Nanos Read() const;

 private:
  int fd_ = -1;
};

}  // namespace uroce::datapath
