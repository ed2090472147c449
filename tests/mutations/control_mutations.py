# SPDX-License-Identifier: Apache-2.0
"""Bugs in how the control thread keeps strangers apart: (name, file under nic, text, what it
becomes)."""

MUTATIONS = [
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
