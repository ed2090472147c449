# SPDX-License-Identifier: Apache-2.0
"""Bugs in how the control thread keeps strangers apart: (name, file under nic, text, what it
becomes)."""

MUTATIONS = [
    ("control-takes-fds-along", "control/stranger_socket.cc",
     "  if (got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) return {Outcome::kFds};\n", ""),
    ("control-a-reset-is-the-end-of-the-queue", "control/stranger_socket.cc",
     "  } while (got < 0 && errno == ECONNRESET);", "  } while (false);"),
    ("control-closes-what-is-not-drained", "control/stranger_socket.cc",
     "  return received.outcome == Outcome::kHangup;",
     "  return received.outcome != Outcome::kNothing;"),
    ("control-messages-arrive-while-it-drains", "control/stranger_socket.cc",
     "  shutdown(fd(), SHUT_RD);\n", ""),
    ("side-thread-forgets-what-is-left", "resources/side_thread.cc",
     "    if (state->waiting.empty()) break;",
     "    if (state->waiting.empty() || state->is_abandoned) break;"),
    ("side-thread-objects-end-anywhere", "resources/side_thread.h",
     "thread->End(std::shared_ptr<T>(last));", "delete last;"),
    ("turns-no-share-of-a-user", "control/user_turns.cc",
     "  left = left - taken;\n", ""),
    ("turns-the-first-is-always-first", "control/user_turns.cc",
     "user.waiting.empty() || user.waiting.front() == id;", "true;"),
    ("turns-the-dead-wait", "control/user_turns.cc", "std::erase(users_[uid].waiting, id);", ""),
    ("log-quiet-time-is-saved-up", "control/log_budget.cc",
     "std::max(user.empty_at, now - kFull);", "user.empty_at;"),
    ("log-omissions-are-told-again", "control/log_budget.cc", "    user.omitted = 0;\n", ""),
    ("log-omissions-cost-nothing", "control/log_budget.cc",
     "    user.omitted = 0;\n    user.empty_at = user.empty_at + kInterval;\n",
     "    user.omitted = 0;\n"),
]
