# SPDX-License-Identifier: Apache-2.0
"""Daemon and programs in a container with the profile of Docker and Podman: user 12345, no
capability, a read-only root, and none of the system calls that such a profile refuses."""
import os
import re
import unittest

from labs.lab import BUILD, E2E
from labs.process import run_status

SANDBOX = BUILD / "tests" / "e2e" / "sandbox"
INSIDE = E2E / "labs" / "sandbox_inside.py"


class SandboxTest(unittest.TestCase):
    """Each test runs the one of the same name inside."""


def _inside(name):
    def test(self):
        status, output = run_status(
            [SANDBOX, "python3", "-W", "ignore", "-B", INSIDE, f"SandboxInside.{name}"], 300,
            env={**os.environ, "PYTHONPATH": str(E2E)})
        self.assertEqual(status, 0, output)
    return test


for _name in re.findall(r"^    def (test_\w+)", INSIDE.read_text(encoding="utf-8"), re.M):
    setattr(SandboxTest, _name, _inside(_name))


if __name__ == "__main__":
    unittest.main()
