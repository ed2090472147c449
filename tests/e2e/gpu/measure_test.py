# SPDX-License-Identifier: Apache-2.0
"""The script that measures a machine with a GPU, as far as it goes without one."""
import ctypes
import pathlib
import sys
import tempfile
import unittest

from labs.lab import BUILD, ROOT
from labs.process import run, run_status

SCRIPT = (sys.executable, "-B", ROOT / "tests" / "gpu" / "measure.py")
NCCL_RANKS = ROOT / "tests" / "gpu" / "nccl_ranks.py"
NO_GPU = 3
# Stands in for a PyTorch that finds no GPU, and whose second rank fails while the first one waits.
TORCH = """
__version__ = "0.1"
class cuda:
    is_available = staticmethod(lambda: False)
    set_device = staticmethod(lambda device: None)
"""
DISTRIBUTED = """
import os, time
is_nccl_available = lambda: True
def init_process_group(backend):
    print('{"operation": "none"}', flush=True)
    if os.environ["RANK"] == "1":
        raise RuntimeError("NCCL error: a reason")
    print("x" * 200_000 + " NCCL version 2.28.9+cuda13.0", flush=True)
    time.sleep(600)
"""


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


class RanksTest(unittest.TestCase):
    """NCCL's two ranks, with a stand-in for PyTorch."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        self.addCleanup(directory.cleanup)
        package = pathlib.Path(directory.name, "torch")
        (package / "distributed").mkdir(parents=True)
        (package / "__init__.py").write_text(TORCH, encoding="utf-8")
        (package / "distributed" / "__init__.py").write_text(DISTRIBUTED, encoding="utf-8")
        self.python = ["env", f"PYTHONPATH={directory.name}:{NCCL_RANKS.parent}", sys.executable,
                       "-B"]

    def test_a_pytorch_that_finds_no_gpu_is_named(self):
        text = run([*self.python, "-c", "import nccl_ranks; print(nccl_ranks.missing())"], 60)
        self.assertIn("PyTorch 0.1 has no CUDA or no NCCL, or finds no GPU", text)

    def test_a_rank_that_fails_ends_the_other_and_its_reason_is_told(self):
        status, text = run_status([*self.python, NCCL_RANKS, "socket"], 40)
        self.assertEqual(status, 1)
        for word in ('{"operation": "none"}', "NCCL version 2.28.9+cuda13.0",
                     "rank 1: status 1:", "NCCL error: a reason"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
