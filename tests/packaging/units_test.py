# SPDX-License-Identifier: Apache-2.0
"""systemd takes the units, and finds them safe."""
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from built import MADE, UROCED

MOST_EXPOSURE = 35  # Tenths.
README_CAPABILITIES = {"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_SETUID", "CAP_SETGID",
                       "CAP_CHECKPOINT_RESTORE", "CAP_LINUX_IMMUTABLE"}
UNITS = ("uroced.service", "uroced@.service")


class UnitsTest(unittest.TestCase):
    def analyze(self, *arguments):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze: the units are not verified")
        done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def test_they_are_well_formed(self):
        for unit in UNITS:
            with self.subTest(unit), tempfile.TemporaryDirectory() as directory:
                # The program is not installed here.
                text = re.sub(r"^ExecStart=\S+", f"ExecStart={UROCED}",
                              (MADE / unit).read_text(), flags=re.M)
                name = unit.replace("@.", "@two.")
                Path(directory, unit).write_text(text)
                status, said = self.analyze("verify", "--man=no", "--recursive-errors=no",
                                            f"{directory}/{name}")
                self.assertNotIn(unit.split(".")[0], said)
                self.assertEqual(status, 0, said)

    def test_their_exposure_is_low(self):
        for unit in UNITS:
            with self.subTest(unit):
                status, said = self.analyze("security", "--offline=true", "--no-pager",
                                            f"--threshold={MOST_EXPOSURE}", str(MADE / unit))
                self.assertEqual(status, 0, said)
                self.assertIn("Overall exposure level", said)

    def test_they_have_the_capabilities_that_the_daemon_uses_and_no_more(self):
        text = (MADE / "uroced.service").read_text()
        for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
            found = re.search(rf"^{key}=(.*)", text, re.M).group(1).split()
            self.assertEqual(set(found), README_CAPABILITIES)

    # Without it, --share-userfaultfd has no effect.
    def test_they_open_userfaultfd(self):
        for unit in UNITS:
            self.assertIn("\nDeviceAllow=/dev/userfaultfd rw\n", (MADE / unit).read_text(), unit)

    # Memory that programs make it hold must not end the daemon before the programs.
    def test_the_kernel_ends_programs_before_the_daemon_when_memory_runs_out(self):
        for unit in UNITS:
            found = re.search(r"^OOMScoreAdjust=(-\d+)$", (MADE / unit).read_text(), re.M)
            self.assertIsNotNone(found, unit)

    def test_two_daemons_share_no_path(self):
        text = (MADE / "uroced@.service").read_text()
        self.assertIn("--config /usr/local/etc/uroce/%i.toml --socket /run/uroce-%i/uroced.sock",
                      text)
        self.assertIn("RuntimeDirectory=uroce-%i\n", text)
