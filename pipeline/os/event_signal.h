// SPDX-License-Identifier: Apache-2.0
// Signals an eventfd that another process holds too, without ever waiting for that process.
#pragma once

#include <linux/aio_abi.h>

#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"

namespace uroce {

/// The other process can clear O_NONBLOCK, which belongs to the open file; a write to a full
/// counter then blocks. Additions by the kernel itself never block: they leave a full counter as it
/// is. So each signal is the end of an asynchronous read of nothing.
class EventSignal {
 public:
  /// Errors name the system call. Causes: no asynchronous I/O in the kernel; fs.aio-max-nr used up.
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
