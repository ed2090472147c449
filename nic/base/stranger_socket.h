// SPDX-License-Identifier: Apache-2.0
// Sockets that strangers write to. A message may bring fds along: whoever receives it without room
// for them closes them, and so does whoever closes a socket with such a message in its queue. To
// close a stranger's fd may take for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nic/base/fd.h"
#include "nic/base/side_thread.h"

namespace uroce {

/// The daemon's end of a Unix socket. No call blocks.
class StrangerSocket {
 public:
  /// `thread` closes it, if it may block.
  StrangerSocket(Fd socket, std::shared_ptr<SideThread> thread);
  ~StrangerSocket();
  StrangerSocket(const StrangerSocket&) = delete;
  StrangerSocket& operator=(const StrangerSocket&) = delete;

  int fd() const { return socket_.get(); }

  enum class Outcome { kMessage, kNothing, kHangup, kFds };
  struct Received {
    Outcome outcome = Outcome::kNothing;
    size_t bytes = 0;  ///< Of the whole message, of which the buffer may hold the beginning alone.
  };
  /// Takes a message. One that brings fds along is left in the queue, for good: kFds.
  Received Receive(std::span<uint8_t> buffer);

 private:
  /// Whether its queue is empty, and stays so.
  bool IsDrained();

  Fd socket_;
  std::shared_ptr<SideThread> thread_;
};

/// Has the kernel refuse fds to whoever sends them to a connection of `listener`, where it can
/// (Linux 6.16).
void RefuseFds(int listener);

}  // namespace uroce
