# SPDX-License-Identifier: Apache-2.0
"""Requests that must fail, and windows that end so, between uroce and rdma_rxe, each once as the
requester."""
import unittest

from labs.programs import data_check, pingpong
from rxe_lab import BridgeLab, UdpLab, VhostTapLab

WINDOWS = ["window", "window-invalidated-by-send", "window-taken-back"]
REFUSED = ["bad-rkey", "read-bad-rkey", "write-past-the-end", "write-before-the-start",
           "write-to-readable", "read-of-writable", "atomic-without-access"]


class Errors:
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.lab_class(9000)
        cls.addClassCleanup(cls.lab.close)

    def check(self, case, *flags):
        """End 0, of lab.a, offends; end 1 is the target. Both look at their completions."""
        for offender in self.lab.both_ways():
            with self.subTest(case, offender=offender):
                rxe_end = 0 if self.lab.a is self.lab.rxe else 1
                data_check(self.lab, "--errors", case, "--rxe", rxe_end, "--deadline", 20,
                           "--max-bytes", 4096, *flags)

    def test_refused_requests(self):
        for case in REFUSED:
            self.check(case)

    def test_windows_until_their_keys_are_taken_back(self):
        for case in WINDOWS:
            self.check(case)

    def test_wrong_local_key(self):
        self.check("bad-lkey")

    def test_message_longer_than_its_receive(self):
        self.check("message-too-long")

    def test_unknown_queue_pair_is_retry_exceeded(self):
        # 4.096 us * 2^8 = 1 ms, three tries. rxe takes 7 retries for endless ones.
        self.check("peer-gone", "--timeout", 8, "--retries", 2)

    def test_receiver_never_ready_is_rnr_retry_exceeded(self):
        self.check("receiver-never-ready", "--rnr-retries", 2)

    def test_others_work_on_after_all_these_errors(self):
        for _ in self.lab.both_ways():
            pingpong(self.lab, "-c")

    def test_misaligned_atomic_of_uroce_is_refused(self):
        """rdma_rxe's own library refuses to post one."""
        self.lab.a, self.lab.b = self.lab.uroce, self.lab.rxe
        data_check(self.lab, "--errors", "unaligned-atomic", "--rxe", 1, "--deadline", 20,
                   "--max-bytes", 4096)


class BridgeErrorsTest(Errors, unittest.TestCase):
    lab_class = BridgeLab


class UdpErrorsTest(Errors, unittest.TestCase):
    lab_class = UdpLab


class VhostErrorsTest(Errors, unittest.TestCase):
    lab_class = VhostTapLab
