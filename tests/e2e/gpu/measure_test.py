# SPDX-License-Identifier: Apache-2.0
"""The script that measures a machine with a GPU, as far as it goes without one."""
import ctypes
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from labs.lab import BUILD, ROOT
from labs.process import run, run_status

SCRIPT = (sys.executable, "-B", ROOT / "tests" / "gpu" / "measure.py")
NCCL_RANKS = ROOT / "tests" / "gpu" / "nccl_ranks.py"
NO_GPU = 3
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")
# Stands in for PyTorch with a GPU.
PYTORCH = ROOT / "tests" / "e2e" / "gpu" / "pytorch"
# What NCCL 2.28 prints of itself and of its way.
VERSION = "NCCL version 2.28.9+cuda13.0"
CHANNEL = "h:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/"
SAYS = {
    "socket": f"{VERSION}\nh:12:34 [0] NCCL INFO Using network Socket\n{CHANNEL}Socket/0",
    "host": f"NET/IB : GPU Direct RDMA Enabled for HCA 0 'uroce0'\n{CHANNEL}IB/0",
    "gpudirect": f"NET/IB : GPU Direct RDMA Enabled for HCA 0 'uroce0'\n{CHANNEL}IB/0/GDRDMA",
}


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class MeasureTest(unittest.TestCase):
    def test_all_but_nccl_runs_with_the_driver_for_tests(self):
        text = run(["env", f"UROCE_BUILD={BUILD}", *SCRIPT, "--driver", "test"], 280)
        for word in ("| cudaMalloc: made, ibv_reg_mr | 20 of 20 right |",
                     "| 1 MB WRITE host-device |", "| 1 MB SEND device-host |",
                     "| NCCL | not run |"):
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

    def start(self, net, says=None, **environment):
        """The exit status, the lines of JSON and all of the text."""
        settings = {"UROCE_TEST_SAYS": says or SAYS[net], "PYTHONPATH": PYTORCH, **environment}
        status, text = run_status(["env", *(f"{key}={value}" for key, value in settings.items()),
                                   sys.executable, "-B", NCCL_RANKS, net], 40)
        return status, [json.loads(line) for line in text.splitlines()
                        if line.startswith("{")], text

    def test_a_pytorch_that_finds_no_gpu_is_named(self):
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            package = pathlib.Path(directory, "torch")
            shutil.copytree(PYTORCH / "torch", package)
            (package / "__init__.py").write_text(
                (package / "__init__.py").read_text(encoding="utf-8") +
                "\ncuda.is_available = lambda: False\n", encoding="utf-8")
            text = run(["env", f"PYTHONPATH={directory}:{NCCL_RANKS.parent}", sys.executable, "-B",
                        "-c", "import nccl_ranks; print(nccl_ranks.missing())"], 60)
        self.assertIn("PyTorch 0.1 has no CUDA or no NCCL, or finds no GPU", text)

    def test_a_pytorch_with_a_gpu_misses_nothing(self):
        text = run(["env", f"PYTHONPATH={PYTORCH}:{NCCL_RANKS.parent}", sys.executable, "-B", "-c",
                    "import nccl_ranks; print([nccl_ranks.missing()])"], 60)
        self.assertEqual(text.strip(), "['']")

    def test_a_rank_that_fails_ends_the_other_and_its_reason_is_told(self):
        status, _, text = self.start("socket", "x" * 100_000 + f" {VERSION}", UROCE_TEST_FAILS=1)
        self.assertEqual(status, 1)
        for word in ('{"operation": "none"}', VERSION, "rank 1: status 1:",
                     "NCCL error: a reason"):
            self.assertIn(word, text)

    def test_each_operation_and_size_has_its_result_and_its_bandwidth(self):
        for net, says in SAYS.items():
            with self.subTest(net):
                status, lines, text = self.start(net)
                self.assertEqual(status, 0, text)
                results = [line for line in lines if "note" not in line]
                self.assertEqual({(each["operation"], each["bytes"]) for each in results},
                                 {(operation, size) for operation in OPERATIONS
                                  for size in (8, 1024)})
                for each in results:
                    self.assertTrue(each["right"], each)
                    share = 0.5 if each["operation"] in ("all_gather", "reduce_scatter") else 1
                    self.assertAlmostEqual(each["busbw_gbps"] * each["seconds"],
                                           8e-9 * each["bytes"] * share)
                (note,) = [line["note"] for line in lines if "note" in line]
                self.assertIn(says.rsplit("[send] ", 1)[1], note)

    def test_a_wrong_result_is_told_by_both_ranks(self):
        for operation in OPERATIONS:
            with self.subTest(operation):
                status, lines, text = self.start("host", UROCE_TEST_WRONG=operation)
                self.assertEqual(status, 1, text)
                wrong = {each["operation"] for each in lines if each.get("right") is False}
                self.assertEqual(wrong, {operation})

    def test_a_way_of_nccl_that_was_not_asked_for_is_told(self):
        for net, says, found in (("gpudirect", "host", "NET/IB"),
                                 ("host", "gpudirect", "NET/IB/GDRDMA"),
                                 ("host", "socket", "NET/Socket"), ("socket", None, "no channel")):
            with self.subTest(net, says=says):
                status, _, text = self.start(net, SAYS[says] if says else "nothing")
                self.assertEqual(status, 1, text)
                self.assertIn(f"NCCL did not go by {net}, but by {found}", text)


if __name__ == "__main__":
    unittest.main()
