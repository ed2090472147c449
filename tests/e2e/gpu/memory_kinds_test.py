# SPDX-License-Identifier: Apache-2.0
"""Memory of GPUs and of programs that use them, each kind by its content, with the driver for
tests."""
import json
import os
import shutil
import sys
import unittest

from gpu import programs
from labs.lab import BUILD, WireLab, find_list
from labs.process import run, run_status, wait_until
from labs.programs import seed

CALLS = BUILD / "tests" / "e2e" / "rare_calls"
# Its first argument is a library more.
PRELOADED = 'export LD_PRELOAD="$LD_PRELOAD:$0" UROCE_LOG=1; exec "$@"'
# Looks for files before the driver is loaded and after that.
LOOK = """
import ctypes, os, sys
def look():
    return "".join("+" if os.access(path, os.F_OK) else "-" for path in sys.argv[1:])
before = look()
ctypes.CDLL("libcuda.so.1")
print("found", before, look())
"""


class MemoryKindsTest(unittest.TestCase):
    """The table of memory kinds. A test for each way of the daemon to copy and to move packets."""

    def check(self, lab, *flags, words=(), env=None):
        self.addCleanup(lab.close)
        control = programs.Words(lab.directory)
        control["seed"] = seed()
        for name, value in words:
            control[name] = value
        path = os.path.join(lab.directory, "table.json")
        table = programs.start(lab.a, control, programs.MEMORY_KINDS, "--json", path, *flags,
                               env=env)
        self.addCleanup(table.kill)
        table.expect_success(timeout_s=300)
        with open(path, encoding="utf-8") as file:
            cells = json.load(file)
        others = [cell for cell in cells if cell["verdict"] != "right"]
        self.assertEqual(others, [])
        wait_until(lambda: not find_list(lab.a.dump("mr")), "the regions are gone")
        return cells

    def test_every_kind_in_every_order_has_the_right_content(self):
        cells = self.check(WireLab())
        for what in ("in by WRITE", "out by READ", "last eight bytes last", "compare and swap"):
            self.assertIn(what, {cell["what"] for cell in cells})
        self.assertGreater(len(cells), 500)

    def test_slow_copies_and_several_workers(self):
        self.check(WireLab("--workers", "2"), "--only", "device", words=[("delay_us", 50)])

    def test_host_memory_that_is_copied(self):
        self.check(WireLab(), "--only", "host", env={"UROCE_MR": "copied"})

    def test_lost_packets(self):
        self.check(WireLab("--fault", "uroce0:drop=0.002,reorder=0.01",
                           "--fault", "uroce1:drop=0.002,reorder=0.01"),
                   "--only", "device", "--lossy")

    def test_memory_that_hip_reaches(self):
        """The programs of tests take CUDA's functions from the same library, which PyTorch calls by
        this name."""
        lab = WireLab()
        self.addCleanup(lab.close)
        library = os.path.join(lab.directory, "libamdhip64.so")
        shutil.copy(programs.DRIVER / "libamdhip64.so.6", library)
        os.symlink(library, os.path.join(lab.directory, "libcuda.so.1"))
        for version, status, words in ((70_000_000, 0, r", 0 wrong, 0 missing\n"),
                                       (50_221_153, 1, r"version 50221153, which is too old")):
            found, text = run_status(
                lab.a.verbs("env", f"LD_LIBRARY_PATH={lab.directory}",
                            f"UROCE_TEST_HIP_VERSION={version}", "sh", "-c", PRELOADED, library,
                            programs.MEMORY_KINDS, "--only", "device"), 100)
            self.assertEqual(found, status, text)
            self.assertRegex(text, words)

    def test_a_program_is_told_why_its_memory_cannot_be_registered(self):
        lab = WireLab()
        self.addCleanup(lab.close)
        for driver, reason in (("", "no driver of a GPU is loaded"),
                               (programs.DRIVER / "libcuda.so.1",
                                "the GPU's driver knows it as none of a GPU")):
            text = run(lab.a.verbs("sh", "-c", PRELOADED, driver, CALLS, "bad-arguments",
                                   lab.a.gid_index(), lab.b.gid_index()))
            self.assertRegex(text, r"0x[0-9a-f]+\+64 is no memory of this program with the access "
                             rf"0x1, and {reason}\n")

    def test_programs_with_a_driver_find_what_tells_them_that_adapters_reach_its_memory(self):
        """NCCL and UCX from 1.18 on look for the first, older ones for the second alone."""
        lab = WireLab()
        self.addCleanup(lab.close)
        if os.path.exists("/sys/module/nvidia_peermem"):
            self.skipTest("this machine has nvidia_peermem")
        text = run(lab.a.verbs("env", f"LD_LIBRARY_PATH={programs.DRIVER}", sys.executable, "-c",
                               LOOK, "/sys/module/nvidia_peermem/version",
                               "/sys/kernel/mm/memory_peers/nv_mem/version"))
        self.assertEqual(text, "found -- ++\n")


if __name__ == "__main__":
    unittest.main()
