// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/event_pipe.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {
absl::StatusOr<EventPipe> EventPipe::Make(uint32_t record_bytes, Fd& read_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe2", errno);
  read_end.Reset(ends[0]);
  Fd write(ends[1]);
  if (fcntl(write.get(), F_SETFL, O_NONBLOCK) != 0) return SystemError("fcntl", errno);
  // Opened anew: a dup would share the flags of the program's end.
  const std::string path = absl::StrCat("/proc/self/fd/", ends[0]);
  Fd read(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!read) return SystemError("reopening a pipe", errno);
  return EventPipe(record_bytes, std::move(read), std::move(write));
}

EventPipe::EventPipe(uint32_t record_bytes, Fd read, Fd write)
    : record_bytes_(record_bytes), read_(std::move(read)), write_(std::move(write)) {}

// One read takes all that a pipe holds: a worker waits for this. A record that the program has read
// the beginning of means nothing any more.
uint32_t EventPipe::Remove(uint64_t element) {
  std::vector<uint8_t> records(std::max(fcntl(read_.get(), F_GETPIPE_SZ), 0));
  const ssize_t got = read(read_.get(), records.data(), records.size());
  uint32_t removed = 0;
  size_t kept = 0;
  for (ssize_t at = 0; at + record_bytes_ <= got; at += record_bytes_) {
    if (std::memcmp(records.data() + at, &element, sizeof(element)) == 0) {
      ++removed;
    } else {
      std::memmove(records.data() + kept, records.data() + at, record_bytes_);
      kept += record_bytes_;
    }
  }
  // There was room for all of them.
  [[maybe_unused]] const ssize_t written =
      kept == 0 ? 0 : write(write_.get(), records.data(), kept);
  return removed;
}

}  // namespace uroce::nic
