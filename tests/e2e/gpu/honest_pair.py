# SPDX-License-Identifier: Apache-2.0
"""What all tests of harmful programs with device memory share: a daemon, and an honest pair beside
them whose bytes are all right."""
import unittest

from gpu.programs import PATIENT, Transfers
from labs.killed_pairs import MortalLab, holdings_at_rest, wait_until_back


class BesideHonestPair(unittest.TestCase):
    """In the end the honest pair goes on, and the daemon holds no more than before."""

    @classmethod
    def setUpClass(cls):
        cls.lab = MortalLab()
        cls.addClassCleanup(cls.lab.tear_down)
        # What the daemon allocates once it has then.
        first = Transfers(cls.lab)
        cls.addClassCleanup(first.kill)
        first.wait_for_progress()
        first.stop()
        cls.before = holdings_at_rest(cls.lab)

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()  # Fails when the daemon has crashed.

    def setUp(self):
        self.honest = self.start()

    def tearDown(self):
        self.honest.wait_for_progress()
        self.honest.stop()
        wait_until_back(self.lab, self.before)

    def start(self, role="target", timeout=PATIENT, requester="requester"):
        pair = Transfers(self.lab, role, timeout, requester)
        self.addCleanup(pair.kill)
        pair.wait_for_progress()
        return pair
