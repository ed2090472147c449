# SPDX-License-Identifier: Apache-2.0
"""A kernel with pages of 64 KB: uroced says so and ends before it opens a port."""
import os
import unittest

from labs.lab import BUILD, UROCED
from labs.process import run_status


class PageSizeTest(unittest.TestCase):
    def test_large_pages_are_refused(self):
        library = BUILD / "tests" / "e2e" / "large_pages.so"
        status, output = run_status([UROCED, "--no-huge"],
                                    env={**os.environ, "LD_PRELOAD": str(library)})
        self.assertEqual(status, 1, output)
        self.assertIn("64 KB", output)
        self.assertEqual(len(output.splitlines()), 1, output)


if __name__ == "__main__":
    unittest.main()
