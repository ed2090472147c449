// SPDX-License-Identifier: Apache-2.0
// Unix sockets: checks of a path before a driver listens or connects there, sockets that untrusted
// processes write to, and streams that a slow reader does not delay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"

namespace uroce {

/// Makes sure that a server can listen on `path`: its directory is writable, no process listens
/// there, and a socket that a former server left behind is removed. Anything else at `path` stays.
/// Errors begin with the path.
absl::Status PrepareServerPath(const std::string& path);

/// Whether a process listens on `path`. Errors begin with the path and say what is there.
absl::Status CheckServerListens(const std::string& path);

/// Makes a stream from the daemon to a program whose reader can delay no other thread. Returns the
/// daemon's end, for send(2) with MSG_DONTWAIT. `reader` is the program's end, which
/// cannot send; the program may set its flags. A pipe would not do: a read whose page fault never
/// ends, in memory served by the reader's own file system, keeps the pipe's lock, and every write
/// waits for it, non-blocking or not. A socket's sender takes no lock of its reader.
/// `send_buffer_bytes` bounds the kernel memory of unread messages, to about twice as much; 0
/// leaves it to the kernel, which takes some 210 KB.
absl::StatusOr<Fd> MakeOneWaySocket(Fd& reader, int send_buffer_bytes = 0);

/// Whether something that was sent on a Unix socket is in the queue of its reader. What a reader
/// has not read leaves the queue when the reader's end is closed.
bool HasUnread(int socket);

/// The daemon's end of a Unix socket that untrusted processes write to. No call blocks.
///
/// A message may bring fds along. A process that receives it without room for them closes them, and
/// so does one that closes a socket with such a message in its queue. Closing an untrusted fd can
/// block without limit.
class UntrustedSocket {
 public:
  /// `thread` closes the socket if closing may block.
  UntrustedSocket(Fd socket, std::shared_ptr<SideThread> thread);
  ~UntrustedSocket();
  UntrustedSocket(const UntrustedSocket&) = delete;
  UntrustedSocket& operator=(const UntrustedSocket&) = delete;

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
