// SPDX-License-Identifier: Apache-2.0
// Sockets that strangers write to. A message may bring fds along. A process that receives it
// without room for them closes them, and so does one that closes a socket with such a message in
// its queue. Closing a stranger's fd may take for ever.
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
  /// `thread` closes the socket if closing may block.
  StrangerSocket(Fd socket, std::shared_ptr<SideThread> thread);
  ~StrangerSocket();
  StrangerSocket(const StrangerSocket&) = delete;
  StrangerSocket& operator=(const StrangerSocket&) = delete;

  int fd() const { return socket_.get(); }

  enum class Outcome { kMessage, kNothing, kHangup, kFds };
  struct Received {
    Outcome outcome = Outcome::kNothing;
    size_t bytes = 0;  ///< Length of the whole message; the buffer may hold only its beginning.
  };
  /// Takes a message. One that brings fds along stays in the queue for good: kFds.
  Received Receive(std::span<uint8_t> buffer);

 private:
  /// Whether the queue is empty, and stays so.
  bool IsDrained();

  Fd socket_;
  std::shared_ptr<SideThread> thread_;
};

/// Makes the kernel refuse fds that are sent to connections of `listener`, where it can (Linux
/// 6.16).
void RefuseFds(int listener);

}  // namespace uroce
