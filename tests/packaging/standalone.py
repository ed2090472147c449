# SPDX-License-Identifier: Apache-2.0
"""The archive of tools/dist, unpacked in a folder whose name it does not know."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from built import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from labs.lab import UNPRIVILEGED  # pylint: disable=wrong-import-position
from labs.programs import PING_PONG  # pylint: disable=wrong-import-position


def dist(output):
    """Runs tools/dist; returns the archive, and what it said."""
    done = subprocess.run([ROOT / "tools" / "dist", "--build", BUILD, "--output", output],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return next(Path(output).glob("uroce-*-x86_64.tar.zst")), done.stdout


@functools.cache
def _made():
    folder = tempfile.TemporaryDirectory(prefix="uroce-made-")
    os.chmod(folder.name, 0o755)
    archive, said = dist(folder.name)
    return folder, archive, said


class StandaloneTestCase(unittest.TestCase):
    """A test that has the archive: one for all tests."""

    archive = said = None

    @classmethod
    def setUpClass(cls):
        if os.uname().machine != "x86_64":
            raise unittest.SkipTest("tools/dist makes programs of x86-64")
        if not shutil.which("zstd"):
            raise unittest.SkipTest("no zstd: tools/install-packages dist")
        _, cls.archive, cls.said = _made()

    def make_folder(self):
        """A folder that any user may enter and write to."""
        folder = tempfile.TemporaryDirectory(prefix="uroce-dist-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        return Path(folder.name)

    def unpack(self, name="elsewhere"):
        folder = self.make_folder() / name
        folder.mkdir()
        subprocess.run(["tar", "-C", folder, "--zstd", "--strip-components=1", "-xf", self.archive],
                       check=True)
        return folder

    def expect_ping_pong(self, output):
        self.assertEqual(len(re.findall("1000 iters in", output)), 2, output)


__all__ = ["PING_PONG", "UNPRIVILEGED", "StandaloneTestCase"]
