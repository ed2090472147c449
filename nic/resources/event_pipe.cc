// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/event_pipe.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {
namespace {

constexpr size_t kMaxRecords = 16384;  // More than a pipe of default size holds.

}  // namespace

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

uint32_t EventPipe::Remove(uint64_t element) {
  std::vector<uint8_t> kept;
  std::vector<uint8_t> record(record_bytes_);
  uint32_t removed = 0;
  for (size_t i = 0; i < kMaxRecords; ++i) {
    if (read(read_.get(), record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
      break;  // Empty, or the program read part of a record: the rest of that means nothing.
    }
    if (std::memcmp(record.data(), &element, sizeof(element)) == 0) {
      ++removed;
    } else {
      kept.insert(kept.end(), record.begin(), record.end());
    }
  }
  for (size_t at = 0; at < kept.size(); at += record_bytes_) {
    if (write(write_.get(), kept.data() + at, record_bytes_) < 0) break;  // There was room for all.
  }
  return removed;
}

}  // namespace uroce::nic
