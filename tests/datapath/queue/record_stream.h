// SPDX-License-Identifier: Apache-2.0
// A socket of records with both its ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>

#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

class RecordStream {
 public:
  RecordStream() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
  }
  ~RecordStream() {
    for (const int end : ends_) close(end);
  }
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  int writer() const { return ends_[1]; }
  int reader() const { return ends_[0]; }
  /// The next record, if one waits.
  std::optional<uroce_event_record> Read() const {
    uroce_event_record record{};
    if (read(ends_[0], &record, sizeof(record)) != sizeof(record)) return std::nullopt;
    return record;
  }
  /// Until nothing more fits.
  void Fill() const {
    const uroce_event_record other{};
    while (write(ends_[1], &other, sizeof(other)) > 0) {
    }
  }
  void Drain() const {
    while (Read()) {
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

}  // namespace uroce::datapath
