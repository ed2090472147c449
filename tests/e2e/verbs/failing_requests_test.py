# SPDX-License-Identifier: Apache-2.0
"""Requests that must fail: right status, the rest flushed, memory as it was."""
import unittest

from labs.lab import VERBS_CHECK, WireLab
from labs.programs import pingpong

CASES = ["bad-rkey", "read-bad-rkey", "write-past-the-end", "write-before-the-start",
         "write-to-readable", "read-of-writable", "atomic-without-access", "unaligned-atomic",
         "bad-lkey", "message-too-long", "flush-by-modify"]


class ErrorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, case, *flags):
        host = self.lab.a
        host.run(VERBS_CHECK, "--errors", case, "--deadline", 20, "--gid-a", host.gid_index(),
                 "--gid-b", self.lab.b.gid_index(), "--max-bytes", 4096, *flags)

    def test_refused_requests(self):
        for case in CASES:
            with self.subTest(case):
                self.check(case)

    def test_peer_gone_is_retry_exceeded(self):
        # 4.096 us * 2^8 = 1 ms, three tries.
        self.check("peer-gone", "--timeout", 8, "--retries", 2)

    def test_receiver_never_ready_is_rnr_retry_exceeded(self):
        self.check("receiver-never-ready", "--rnr-retries", 2)

    def test_zero_retries_give_up_at_the_first_failure(self):
        self.check("peer-gone", "--timeout", 8, "--retries", 0)
        self.check("receiver-never-ready", "--rnr-retries", 0)

    def test_others_work_on_after_all_these_errors(self):
        pingpong(self.lab, "-c")
