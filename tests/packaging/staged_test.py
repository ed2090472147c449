# SPDX-License-Identifier: Apache-2.0
"""What `meson install` stages runs from wherever it lies."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from built import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from process import Process, run, wait_until  # pylint: disable=wrong-import-position


class StagedTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="uroce-staged-")
        self.addCleanup(directory.cleanup)
        stage = Path(directory.name) / "stage"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                        stage], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        self.tree = Path(directory.name) / "elsewhere"  # What was compiled in would not fit.
        shutil.move(stage / "usr" / "local", self.tree)
        self.socket = f"{directory.name}/uroced.sock"

    def uroce(self, *arguments):
        return [self.tree / "bin" / "uroce", "--socket", self.socket, *arguments]

    def test_the_shim_is_the_one_beside_the_tool(self):
        shim = next(self.tree.glob("lib/*/uroce/liburoce.so"))
        self.assertIn(f"LD_PRELOAD='{shim}", run(self.uroce("env")))
        self.assertTrue((shim.parent / "liburoce-verbs.so").exists())

    def test_a_moved_tree_runs_a_program(self):
        daemon = Process([self.tree / "sbin" / "uroced", "--no-huge", "--socket", self.socket])
        self.addCleanup(daemon.kill)
        wait_until(lambda: "uroced: ready, " in daemon.output(), "the daemon")
        port = "18933"
        program = ("run", "--", "ibv_rc_pingpong", "-g", "1", "-p", port, "-n", "100")
        server = Process(self.uroce(*program, "-d", "uroce0"))
        self.addCleanup(server.kill)
        wait_until(lambda: not server.running() or f":{int(port):04X} " in
                   Path(f"/proc/{os.getpid()}/net/tcp").read_text()
                   + Path(f"/proc/{os.getpid()}/net/tcp6").read_text(), "a server")
        run(self.uroce(*program, "-d", "uroce1", "127.0.0.1"))
        server.expect_success(30)
        self.assertEqual(daemon.stop(), 0)
