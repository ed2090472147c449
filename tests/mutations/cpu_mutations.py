# SPDX-License-Identifier: Apache-2.0
"""Bugs in what threads do that wait on a shared core, and in the word on which they sleep: (name,
file, text, what it becomes)."""

MUTATIONS = [
    ("contention-ends-by-one-fast-yield", "contention.h",
     "if (++fast_yields_ == kFastYields) is_known_ = false;", "is_known_ = false;"),
    ("contention-is-always-a-new-one", "contention.h",
     "trial_ns_ = goes_on ? LaterTrial() : kFirstTrialNs;",
     "trial_ns_ = goes_on ? kFirstTrialNs : kFirstTrialNs;"),
    ("contention-never-is-a-new-one", "contention.h",
     "now_ns - try_at_ns_ < kLongestTrialNs", "now_ns > try_at_ns_"),
    ("contention-counts-fast-yields-of-all-trials", "contention.h",
     "    fast_yields_ = 0;\n", ""),
    ("contention-trials-ever-more-seldom", "contention.h",
     "return trial_ns_ * 2 < kLongestTrialNs ? trial_ns_ * 2 : kLongestTrialNs;",
     "return trial_ns_ * 2;"),
]
RINGS_MUTATIONS = [
    ("pollers-of-all-queues-taken", "pollers.h",
     "__atomic_fetch_and(&pollers.value, ~bit,", "__atomic_fetch_and(&pollers.value, 0u,"),
    ("pollers-of-others-forgotten", "pollers.h",
     "return before | bits;", "return (before & bits) | bits;"),
]
