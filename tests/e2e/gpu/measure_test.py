# SPDX-License-Identifier: Apache-2.0
"""The script that measures a machine with a GPU, as far as it goes without one."""
import ctypes
import sys
import unittest

from labs.lab import BUILD, ROOT
from labs.process import run, run_status

SCRIPT = (sys.executable, "-B", ROOT / "tests" / "gpu" / "measure.py")
NO_GPU = 3


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class MeasureTest(unittest.TestCase):
    def test_all_but_nccl_runs_with_the_driver_for_tests(self):
        text = run(["env", f"UROCE_BUILD={BUILD}", *SCRIPT, "--driver", "test"], 280)
        for word in ("| cudaMalloc: made, ibv_reg_mr | 19 of 19 right |",
                     "| 1 MB WRITE host-device |", "| NCCL | not run |"):
            self.assertIn(word, text)

    def test_without_a_gpu_it_says_so_in_one_line(self):
        if has_driver():
            self.skipTest("this machine has a driver of CUDA")
        status, text = run_status(["env", f"UROCE_BUILD={BUILD}", *SCRIPT], 60)
        self.assertEqual(status, NO_GPU, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        self.assertIn("no GPU", text)


if __name__ == "__main__":
    unittest.main()
