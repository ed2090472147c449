// SPDX-License-Identifier: Apache-2.0
// Raising an eventfd that another process holds too, without ever waiting for that process.
#pragma once

#include <linux/aio_abi.h>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce {

/// O_NONBLOCK belongs to the open file, which the other process can change, and a write to an
/// eventfd whose counter is full waits without it. What the kernel itself adds to an eventfd leaves
/// a full counter as it is: so each signal is the end of an asynchronous read of nothing.
class EventSignal {
 public:
  /// Errors name the system call: a kernel without asynchronous I/O, or fs.aio-max-nr is used up.
  static absl::StatusOr<EventSignal> Make();
  EventSignal(EventSignal&& other) noexcept;
  EventSignal& operator=(EventSignal&&) = delete;
  ~EventSignal();

  /// Adds 1 to the counter of `event_fd`. One thread.
  void Raise(int event_fd);

 private:
  EventSignal(aio_context_t context, Fd nothing);

  aio_context_t context_;
  Fd nothing_;  ///< An empty file.
};

}  // namespace uroce
