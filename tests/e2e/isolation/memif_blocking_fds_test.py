# SPDX-License-Identifier: Apache-2.0
"""The peer of a memif hands its server fds whose close takes a minute, in every way there is:
programs and the next peer are served meanwhile, and the daemon stops when it is told to."""
import sys
import unittest

from isolation.blocking_fds_test import PATIENCE_SECONDS, say_hello
from labs.lab import E2E
from labs.memif_lab import MemifLab
from labs.process import Process, wait_until
from labs.programs import pingpong

BLOCKING_PEER = E2E / "labs" / "memif_blocking_fds.py"


class MemifUntrustedPeersTest(unittest.TestCase):
    def setUp(self):
        self.lab = MemifLab()
        self.addCleanup(self.lab.tear_down)

    def attack(self, kind):
        attacker = Process(["env", f"PYTHONPATH={E2E}", sys.executable, BLOCKING_PEER,
                            f"{self.lab.directory}/memif.sock",
                            self.lab.a.daemon.process.pid, kind])
        self.addCleanup(attacker.kill)
        wait_until(lambda: "done" in attacker.output() or not attacker.running(), "the attack")
        self.assertTrue(attacker.running(), attacker.output())
        for _ in range(20):
            say_hello(self.lab.a.daemon.socket)
        return attacker

    def check_stop(self, attacker):
        server = self.lab.a.daemon.process
        self.lab.daemons.remove(self.lab.a.daemon)
        self.addCleanup(server.kill)
        self.assertEqual(server.stop(PATIENCE_SECONDS), 0, server.describe())
        self.assertTrue(attacker.running(), attacker.output())

    def check_without_a_peer(self, kind):
        """The server's peer is gone, and comes back after the untrusted one."""
        self.lab.kill(self.lab.b)
        self.lab.wait_link("down", self.lab.a)
        attacker = self.attack(kind)
        self.lab.restart(self.lab.b)
        self.lab.wait_ready()
        pingpong(self.lab, "-c")
        self.check_stop(attacker)

    def test_an_fd_that_is_no_memory(self):
        self.check_without_a_peer("memory")

    def test_an_fd_that_is_no_eventfd(self):
        self.check_without_a_peer("eventfd")

    def test_fds_that_are_too_many(self):
        self.check_without_a_peer("surplus")

    def test_fds_of_a_peer_that_has_its_rings(self):
        self.check_without_a_peer("connected")

    def test_fds_in_messages_that_are_never_read(self):
        self.check_without_a_peer("unread")

    def test_fds_of_peers_that_are_turned_away(self):
        """The server has its peer, and keeps it."""
        attacker = self.attack("unread")
        pingpong(self.lab, "-c")
        self.check_stop(attacker)

    def test_fds_of_more_peers_than_a_server_has_room_for(self):
        attacker = self.attack("many")
        pingpong(self.lab, "-c")
        self.check_stop(attacker)
