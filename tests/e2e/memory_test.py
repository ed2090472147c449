# SPDX-License-Identifier: Apache-2.0
"""Registered memory: transfers between every kind of it, with threads that write beside, give the
same results however the daemon reaches the bytes."""
import unittest

from lab import BUILD, WireLab
from process import run

EQUAL_RESULTS = BUILD / "tests" / "memory" / "equal_results"


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def _results(self, *settings):
        host = self.lab.a
        return run(host.uroce("run", "--", "env", *settings, EQUAL_RESULTS, "uroce0", "uroce1"),
                   timeout_s=180)

    def test_mapped_and_copied_regions_give_equal_results(self):
        automatic = self._results()
        self.assertTrue(automatic.strip())
        for mode in ("mapped", "copied"):
            with self.subTest(mode):
                self.assertEqual(self._results(f"UROCE_MR={mode}"), automatic)
