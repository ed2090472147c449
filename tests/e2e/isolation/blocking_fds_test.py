# SPDX-License-Identifier: Apache-2.0
"""A user's program hands the daemon fds whose close takes a minute, in every way there is: others
are served meanwhile, and the daemon stops when it is told to."""
import os
import sys
import time
import unittest

from labs.blocking_fds import LINGER_SECONDS
from labs.control import ABI_VERSION, Client
from labs.lab import E2E, WireLab, preload
from labs.process import Process, wait_until

BLOCKING_FDS = E2E / "labs" / "blocking_fds.py"
UID = 61000
# Far from a minute, and from what a loaded machine takes.
PATIENCE_SECONDS = LINGER_SECONDS / 4


def say_hello(path):
    """Seconds until a program of root's is served."""
    begin = time.monotonic()
    client = Client(path)
    client.socket.settimeout(PATIENCE_SECONDS)
    client.call("HELLO", "II", ABI_VERSION, 0)
    client.socket.close()
    return time.monotonic() - begin


class StuckFdsTest(unittest.TestCase):
    """With a kernel that refuses fds where none are expected (Linux 6.16), if this is one."""

    daemon_prefix = ()
    shares = "files under way of a user"  # The kernel counts them for all programs of a user.

    def setUp(self):
        class Lab(WireLab):
            daemon_prefix = self.daemon_prefix

        self.lab = Lab("--max-sessions-per-user", "4")
        self.addCleanup(self.lab.tear_down)
        for directory in (self.lab.directory, os.path.dirname(self.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)

    def check(self, kind):
        daemon = self.lab.daemons[0]
        say_hello(daemon.socket)
        attacker = Process(["env", f"PYTHONPATH={E2E}",
                            "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
                            sys.executable, BLOCKING_FDS, daemon.socket, kind])
        self.addCleanup(attacker.kill)
        wait_until(lambda: "done" in attacker.output() or not attacker.running(), "the attack")
        self.assertTrue(attacker.running(), attacker.output())
        for _ in range(20):
            say_hello(daemon.socket)
        self.assertEqual(daemon.process.stop(PATIENCE_SECONDS), 0, daemon.process.describe())
        self.assertTrue(attacker.running(), attacker.output())

    def test_fds_beside_a_command(self):
        self.check("command")

    def test_fds_in_messages_that_are_never_read(self):
        self.check("unread")

    def test_fds_sent_to_a_file_of_rdma_cm(self):
        self.check("rdma_cm")

    def test_fds_that_are_lent(self):
        self.check("lent")

    def test_fds_of_a_program_that_is_turned_away(self):
        self.check("turned_away")


class OlderKernelTest(StuckFdsTest):
    """The same where the kernel takes fds for every socket."""

    daemon_prefix = preload("before_passrights")
