# SPDX-License-Identifier: Apache-2.0
"""Multicast groups: every queue pair in them gets what is sent, wherever it lives, and the network
is told who is in."""
import unittest

from labs.lab import BUILD, VethLab, WireLab
from labs.memif_lab import MemifLab
from labs.process import run, wait_until
from labs.programs import perftest

MULTICAST = BUILD / "tests" / "e2e" / "multicast"
GROUPS = {4: "::ffff:239.1.2.3", 6: "ff15::1234"}


class Groups:
    """On every lab: receivers on the other host, and on the sender's own."""

    def setUp(self):
        self.lab = self.make_lab()
        self.addCleanup(self.lab.close)

    def start(self, host, version, role, queue_pairs):
        program = host.start(MULTICAST, "-d", host.device, "-x", host.gid_index(version), "-g",
                             GROUPS[version], "-q", queue_pairs, role)
        self.addCleanup(program.kill)
        return program

    def test_every_member_gets_all(self):
        for version in (4, 6):
            with self.subTest(version):
                receivers = [self.start(self.lab.b, version, "receive", 3),
                             self.start(self.lab.a, version, "receive", 2)]
                for receiver in receivers:
                    wait_until(lambda its=receiver: "attached" in its.output() or
                               not its.running(), "a receiver in its group")
                self.check_joined(version)
                sender = self.start(self.lab.a, version, "send", 2)
                for program, queue_pairs in zip((sender, *receivers), (2, 3, 2)):
                    self.assertIn(f"{queue_pairs} queue pairs got 100 datagrams each",
                                  program.expect_success(60))
                self.assertEqual(self.groups_of(self.lab.b), [])

    @staticmethod
    def groups_of(host):
        devices = {device["name"]: device for device in host.dump("devices")["devices"]}
        return devices[host.device]["groups"]

    def check_joined(self, version):
        self.assertEqual(self.groups_of(self.lab.b), [GROUPS[version].removeprefix("::ffff:")])

    def test_programs(self):
        # Its group is one of IPv6.
        perftest(self.lab, "ib_send_bw", "-c", "UD", "-g", "-n", 100, version=6)


class WireMulticastTest(Groups, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()


class WireWorkersMulticastTest(Groups, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab("--workers", "2")


class MemifMulticastTest(Groups, unittest.TestCase):
    """Ports that are their own hosts."""

    @staticmethod
    def make_lab():
        return MemifLab()


class VethMulticastTest(Groups, unittest.TestCase):
    """Beside the kernel, which joins the groups."""

    @staticmethod
    def make_lab():
        return VethLab(4200)

    def check_joined(self, version):
        super().check_joined(version)
        name = "igmp" if version == 4 else "igmp6"
        wanted = "030201EF" if version == 4 else "ff150000000000000000000000001234"
        self.assertIn(wanted, run(self.lab.b.namespace.command(["cat", f"/proc/net/{name}"])))
