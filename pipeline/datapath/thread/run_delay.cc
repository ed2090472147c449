// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/run_delay.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

namespace uroce::datapath {

RunDelay::~RunDelay() {
  if (fd_ >= 0) close(fd_);
}

void RunDelay::Open() {
  if (fd_ >= 0) close(fd_);
  fd_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

Nanos RunDelay::Read() const {
  char text[64];
  const ssize_t length = fd_ < 0 ? -1 : pread(fd_, text, sizeof text, 0);
  if (length <= 0) return Nanos(0);
  // The time on a CPU, the time of waiting for one, how often it ran.
  const std::string_view times(text, static_cast<size_t>(length));
  const size_t second = times.find(' ');
  int64_t count = 0;
  if (second == times.npos) return Nanos(0);
  std::from_chars(times.data() + second + 1, times.data() + times.size(), count);
  return Nanos(count);
}

}  // namespace uroce::datapath
