# SPDX-License-Identifier: Apache-2.0
"""Programs under a developer's tools: sanitizers, valgrind, gdb and strace see nothing to report of
the preloaded library, and the program does what it does without them."""
import os
import shutil
import tempfile
import unittest

from labs.lab import BUILD, WireLab

PROGRAM = BUILD / "tests" / "e2e" / "debugged_program"
SHIM = "liburoce"


class DevelopersToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, *program, preceded_by=()):
        """Runs it to its end; what it and its tool say together does not name the library."""
        host = self.lab.a
        if preceded_by and not shutil.which(preceded_by[0]):
            self.skipTest(f"no {preceded_by[0]}: tools/install-packages test")
        output = host.run(*preceded_by, *program, host.gid_index(), self.lab.b.gid_index(),
                          timeout_s=180)
        self.assertIn("all transferred", output)
        return output

    def check_sanitizer(self, kind):
        program = PROGRAM.with_name(f"{PROGRAM.name}_{kind}")
        if not program.exists():
            self.skipTest(f"no {program}: the build has its own sanitizer")
        self.assertNotIn(SHIM, self.check(program))

    def test_without_a_tool(self):
        self.check(PROGRAM)

    def test_address_sanitizer(self):
        self.check_sanitizer("address")

    def test_thread_sanitizer(self):
        self.check_sanitizer("thread")

    def test_undefined_behaviour_sanitizer(self):
        self.check_sanitizer("undefined")

    def test_valgrind(self):
        # The child closes nothing: libibverbs has pointers into blocks, which may count as lost.
        output = self.check(PROGRAM, preceded_by=(
            "valgrind", "--leak-check=full", "--error-exitcode=9",
            "--errors-for-leak-kinds=definite", "--child-silent-after-fork=yes"))
        self.assertIn("possibly lost: 0 bytes", output)
        self.assertIn("ERROR SUMMARY: 0 errors", output)
        self.assertNotIn(SHIM, output)

    def test_gdb(self):
        output = self.check(PROGRAM, preceded_by=("gdb", "-nx", "-batch", "-ex", "run", "--args"))
        self.assertIn("exited normally", output)
        self.assertNotIn(SHIM, output)

    def test_strace(self):
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            path = os.path.join(directory, "calls")
            self.check(PROGRAM, preceded_by=("strace", "-f", "-o", path))
            with open(path, encoding="utf-8", errors="replace") as file:
                calls = file.read()
        self.assertIn("+++ exited with 0 +++", calls)
        self.assertNotIn("+++ killed", calls)
        self.assertNotIn("--- SIGSEGV", calls)
