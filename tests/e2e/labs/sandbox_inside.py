# SPDX-License-Identifier: Apache-2.0
"""The tests that container_test runs inside of the sandbox: sandbox_inside.py TEST."""
import ctypes
import errno
import os
import socket
import sys
import tempfile
import unittest

from labs.capture import capturing
from labs.lab import BUILD, LONG, UROCE
from labs.process import Process, run, run_status, wait_until
from labs.programs import DataCheck, perftest, pingpong, results_of_modes, seed
from labs.sandbox_lab import SandboxLab

MEMORY = BUILD / "tests" / "memory"
DATA_OPS = 20000 if LONG else 500
SYS_USERFAULTFD, SYS_PROCESS_VM_READV, SYS_BPF, SYS_KEYCTL = 323, 310, 321, 250
CLONE_NEWUSER = 0x10000000


class SandboxInside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = SandboxLab()
        cls.addClassCleanup(cls.lab.close)

    def test_it_is_a_sandbox(self):
        libc = ctypes.CDLL(None, use_errno=True)
        for call in (SYS_USERFAULTFD, SYS_PROCESS_VM_READV, SYS_BPF, SYS_KEYCTL):
            self.assertEqual((libc.syscall(call, 0, 0, 0, 0, 0, 0), ctypes.get_errno()),
                             (-1, errno.EPERM), call)
        self.assertEqual(libc.unshare(CLONE_NEWUSER), -1)
        self.assertNotEqual(os.getuid(), 0)
        with self.assertRaises(OSError):
            open("/etc/uroce-sandbox", "w", encoding="ascii")
        with self.assertRaises(PermissionError):
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        with open("/proc/self/status", encoding="ascii") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        self.assertEqual({int(fields[kind], 16) for kind in ("CapPrm", "CapEff", "CapBnd")}, {0})

    def test_memory_is_mapped(self):
        holder = Process(self.lab.a.verbs(MEMORY / "equal_results", "uroce0", "uroce1", "hold"),
                         env={**os.environ, "LAYOUTS_SHM": "uroce-sandbox"})
        self.addCleanup(holder.kill)
        wait_until(lambda: not holder.running() or "held" in holder.output(), "registrations", 60)
        self.assertTrue(holder.running(), holder.describe())
        kinds = dict(line.split(" ", 1) for line in holder.output().splitlines()
                     if line.startswith("0x"))
        ways = {kinds[region["address"]]: {(part["mode"], part["reason"])
                                           for part in region["segments"]}
                for region in self.lab.a.dump("mr")["mrs"] if region["device"] == "uroce0"}
        for kind in ("pages", "huge", "bss", "large heap", "odd pages", "arena", "mixed"):
            self.assertIn(("mapped", "no userfaultfd"), ways[kind], kind)

    def test_results_are_those_of_copies(self):
        def run_in(mode):
            return run(self.lab.a.verbs("env", f"UROCE_MR={mode}", "LAYOUTS_SHM=uroce-sandbox",
                                        MEMORY / "equal_results", "uroce0", "uroce1"), 180)
        results = results_of_modes(run_in, ("automatic", "copied"))
        self.assertIn("digest", results["automatic"])
        self.assertEqual(results["copied"], results["automatic"])

    def test_data(self):
        DataCheck(self.lab, "--seed", seed(), "--ops", DATA_OPS).finish()

    def test_pingpongs(self):
        for service in ("rc", "uc", "ud", "srq"):
            with self.subTest(service):
                pingpong(self.lab, "-c" if service != "ud" else "-s1024", service=service)

    def test_perftest(self):
        for tool in ("ib_write_bw", "ib_send_lat", "ib_read_bw", "ib_atomic_bw"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", 1000)

    def test_memory_of_programs_with_threads(self):
        for name, arguments in (("changing_memory", ()), ("forking", ("2",))):
            with self.subTest(name):
                run(self.lab.a.verbs(MEMORY / name, "uroce0", "uroce1", *arguments), 120)

    def test_a_capture_of_the_own_nic(self):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/own.pcap"
            with capturing(self.lab.a, path, "-d", "uroce0"):
                pingpong(self.lab)
            self.assertGreater(os.path.getsize(path), 100000)

    def test_the_line_of_the_guide(self):
        """docs/guide/containers.md, "Without any privilege"."""
        with tempfile.TemporaryDirectory() as directory:
            output = run(
                ["uroce", "run", "--private", "--", "ibv_devinfo"],
                env={**os.environ, "TMPDIR": directory,
                     "PATH": f"{BUILD}/nic:{BUILD}/tools:{os.environ['PATH']}"})
            self.assertEqual(os.listdir(directory), [])
        for device in ("uroce0", "uroce1"):
            self.assertIn(device, output)

    def test_doctor(self):
        status, output = run_status([UROCE, "--socket", self.lab.a.daemon.socket, "doctor"])
        self.assertIn(status, (0, 1), output)
        self.assertIn("a handler of SIGSEGV", output)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
