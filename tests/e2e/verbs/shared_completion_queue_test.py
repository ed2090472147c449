# SPDX-License-Identifier: Apache-2.0
"""Completion queues that queue pairs of several workers share, with events and resizes."""
import unittest

from labs.lab import BUILD, WireLab

SHARED_CQ = BUILD / "tests" / "e2e" / "shared_cq"


class SharedCqTest(unittest.TestCase):
    def check(self, *flags):
        lab = WireLab(*flags)
        self.addCleanup(lab.close)
        output = lab.a.run(SHARED_CQ, "-x", lab.a.gid_index(), "-y", lab.b.gid_index(), "-n", 8,
                           "-m", 2000)
        self.assertIn("16000 completions at either end, 64 resizes", output)
        return lab

    def test_completions_of_two_workers_come_once_and_in_order(self):
        self.check("--workers", "2")

    def test_completions_of_one_worker_come_once_and_in_order(self):
        self.check()
