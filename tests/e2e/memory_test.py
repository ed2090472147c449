# SPDX-License-Identifier: Apache-2.0
"""Registered memory: transfers between every kind of it, with threads that write beside, give the
same results however the daemon reaches the bytes; it says how, and why not better; and it survives
what programs do to their memory meanwhile."""
import os
import unittest

from lab import BUILD, UROCE, WireLab
from process import Process, run, wait_until

PROGRAMS = BUILD / "tests" / "memory"
EQUAL_RESULTS = PROGRAMS / "equal_results"
SHM = f"uroce-layouts-e2e-{os.getpid()}"

# How the daemon reaches each kind of memory: "mode" or "mode: reason" of every part.
COPIED_EVERYWHERE = {
    "stack": "copied: stack", "thread stack": "copied: stack", "tls": "copied: stack",
    "data": "copied: file mapping", "rodata": "copied: file mapping",
    "file private": "copied: file mapping", "hugetlb": "copied: file mapping"}
SHARED_EVERYWHERE = ("memfd", "posix shm")
# Without an open file or a path: by the link in /proc, which takes a privilege.
SHARED_BY_LINK = ("shared", "memfd closed", "sysv shm", "hugetlb shared")
MAPPED = ("pages", "huge")


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def _command(self, *settings, program=EQUAL_RESULTS, arguments=()):
        host = self.lab.a
        return host.namespace.command([
            "env", f"UROCE_SOCKET={host.daemon.socket}", f"LAYOUTS_SHM={SHM}", *settings,
            UROCE, "run", "--", program, "uroce0", "uroce1", *arguments])

    def _remove_shm(self):
        try:
            os.unlink(f"/dev/shm/{SHM}")
        except FileNotFoundError:
            pass

    def _results(self, *settings):
        self.addCleanup(self._remove_shm)
        return run(self._command(*settings), timeout_s=180)

    def _ways(self, *settings):
        """How the daemon reaches each kind of memory."""
        self.addCleanup(self._remove_shm)
        holder = Process(self._command(*settings, arguments=["hold"]))
        self.addCleanup(holder.kill)
        wait_until(lambda: not holder.running() or "held" in holder.output(), "registrations", 60)
        self.assertTrue(holder.running(), holder.describe())
        kinds = dict(line.split(" ", 1) for line in holder.output().splitlines()
                     if line.startswith("0x"))
        ways = {kinds[region["address"]]: self._ways_of(region)
                for region in self.lab.a.dump("mr")["mrs"]
                if region["program"] == "equal_results" and region["device"] == "uroce0"}
        holder.kill()
        self._remove_shm()
        self.assertEqual(len(ways), len(kinds))
        return ways

    @staticmethod
    def _ways_of(region):
        ways = {part["mode"] + (f": {part['reason']}" if part["reason"] else "")
                for part in region["segments"]}
        return sorted(ways)

    def _assert_ways(self, ways, kinds, expected):
        for kind in kinds:
            if kind in ways:  # Huge pages may be absent.
                self.assertEqual(ways[kind], [expected], kind)

    def test_mapped_and_copied_regions_give_equal_results(self):
        automatic = self._results()
        self.assertTrue(automatic.strip())
        for mode in ("mapped", "copied"):
            with self.subTest(mode):
                self.assertEqual(self._results(f"UROCE_MR={mode}"), automatic)

    def test_it_says_how_each_kind_of_memory_is_reached(self):
        ways = self._ways()
        for kind, way in COPIED_EVERYWHERE.items():
            self._assert_ways(ways, [kind], way)
        self._assert_ways(ways, SHARED_EVERYWHERE + SHARED_BY_LINK, "shared")
        self._assert_ways(ways, MAPPED, "mapped")
        self.assertEqual(ways["brk"], ["copied: heap page", "mapped"])
        self.assertEqual(ways["arena"], ["copied: heap page", "mapped"])
        self.assertIn("mapped", ways["mixed"])
        self.assertIn("shared", ways["mixed"])

    def test_forced_copies_are_the_policys(self):
        for kind, ways in self._ways("UROCE_MR=copied").items():
            self.assertEqual(ways, ["copied: policy"], kind)

    def test_shrinking_a_file_ends_its_program_and_nobody_else(self):
        for what in ("truncate", "punch"):
            with self.subTest(what):
                run(self._command(program=PROGRAMS / "shrinking_file", arguments=[what]))
        self.assertTrue(self._results().strip())  # The daemon serves others as before.
