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
# pylint: disable-next=wrong-import-position
from labs.process import Process, run, run_status, wait_until


class StagedTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="uroce-staged-")
        self.addCleanup(directory.cleanup)
        stage = Path(directory.name) / "stage"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                        stage], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        self.tree = Path(directory.name) / "elsewhere"  # What was compiled in would not fit.
        shutil.move(stage, self.tree)
        self.socket = f"{directory.name}/uroced.sock"

    def uroce(self, *arguments):
        return [self.tree / "usr/local/bin/uroce", "--socket", self.socket, *arguments]

    def test_the_shim_is_the_one_beside_the_tool(self):
        shim = next(self.tree.glob("usr/local/lib/*/uroce/liburoce.so"))
        self.assertIn(f"LD_PRELOAD='{shim}", run(self.uroce("env")))
        self.assertTrue((shim.parent / "liburoce-verbs.so").exists())

    def test_wiresharks_program_is_the_one_of_the_tree(self):
        extcap = next(self.tree.glob("usr/**/wireshark/extcap/uroce-extcap"))
        without_tshark = {**os.environ, "PATH": "/nonexistent"}
        self.assertEqual(run(self.uroce("extcap"), env=without_tshark), f"{extcap}\n")

    def test_doctor_names_the_daemon_of_the_tree(self):
        status, output = run_status(self.uroce("doctor"))
        self.assertEqual(status, 1, output)
        self.assertIn(f"sudo {self.tree}/usr/local/sbin/uroced --socket", output)

    def test_a_moved_tree_runs_a_program(self):
        uroced = self.tree / "usr/local/sbin/uroced"
        daemon = Process([uroced, "--no-huge", "--socket", self.socket])
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
