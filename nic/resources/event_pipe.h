// SPDX-License-Identifier: Apache-2.0
// A pipe of fixed records from the daemon to a program: completion channels, asynchronous events.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nic/resources/fd.h"

namespace uroce::nic {

/// The daemon's ends: one to write, non-blocking, and one to take records back. The program has a
/// read end whose flags are its own business.
class EventPipe {
 public:
  /// `read_end` is for the program.
  static absl::StatusOr<EventPipe> Make(uint32_t record_bytes, Fd& read_end);

  int write_fd() const { return write_.get(); }
  /// Takes the unread records off whose first 8 bytes are `element` and returns their number.
  /// Nobody else of the daemon may write meanwhile.
  uint32_t Remove(uint64_t element);

 private:
  EventPipe(uint32_t record_bytes, Fd read, Fd write);

  uint32_t record_bytes_;
  Fd read_;
  Fd write_;
};

}  // namespace uroce::nic
