# SPDX-License-Identifier: Apache-2.0
"""Bugs in how strangers' sockets and fds are kept from the threads that others wait for: (name,
file under drivers, text, what it becomes)."""

MUTATIONS = [
    ("stranger-takes-fds-along", "stranger_socket.cc",
     "  if (got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) return {Outcome::kFds};\n", ""),
    ("stranger-a-reset-is-the-end-of-the-queue", "stranger_socket.cc",
     "  } while (got < 0 && errno == ECONNRESET);", "  } while (false);"),
    ("stranger-closes-what-is-not-drained", "stranger_socket.cc",
     "  return received.outcome == Outcome::kHangup;",
     "  return received.outcome != Outcome::kNothing;"),
    ("stranger-messages-arrive-while-it-drains", "stranger_socket.cc",
     "  shutdown(fd(), SHUT_RD);\n", ""),
    ("side-thread-forgets-what-is-left", "side_thread.cc",
     "    if (state->waiting.empty()) break;",
     "    if (state->waiting.empty() || state->is_abandoned) break;"),
    ("side-thread-objects-end-anywhere", "side_thread.h",
     "thread->End(std::shared_ptr<T>(last));", "delete last;"),
]
