# SPDX-License-Identifier: Apache-2.0
"""librdmacm's own programs, one side on rdma_rxe and the kernel's connection manager in the guest,
the other on uroce; either serves."""
import unittest

from labs.cm_programs import perftest_by_cm, rping, two_sided
from rxe_lab import BridgeLab, UdpLab, VhostLab

UDADDY_PORT = 7174  # Its own: it has no flag for another.


class ConnectionManager:
    """`lab_class` says how the two are joined."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.lab_class(9000)
        cls.addClassCleanup(cls.lab.close)

    def in_all_ways(self, run, *arguments, **keywords):
        """Over IPv4 and IPv6, with either side as server."""
        for version in (4, 6):
            for server in self.lab.both_ways():
                with self.subTest(arguments, server=server, ip=version):
                    run(self.lab, *arguments, version=version, **keywords)

    def test_rping(self):
        self.in_all_ways(rping, count=100)

    def test_many_ids_of_one_program(self):
        self.in_all_ways(two_sided, "ucmatose", "-c", 20)

    def test_a_type_of_service_and_migrated_ids(self):
        self.in_all_ways(two_sided, "ucmatose", "-t", 0x68, "-m")

    def test_datagrams(self):
        self.in_all_ways(two_sided, "udaddy", "-c", 3, port=UDADDY_PORT)

    def test_a_thousand_connections(self):
        for server in self.lab.both_ways():
            with self.subTest(server=server):
                _, steps = two_sided(self.lab, "cmtime", "-c", 1000, server_ends=False,
                                     timeout_s=300)
                print(f"   the client of {server}:\n{steps}", flush=True)

    def test_perftest(self):
        for server in self.lab.both_ways():
            with self.subTest(server=server):
                perftest_by_cm(self.lab, "ib_write_bw", "-n", 500)

    def test_streams(self):
        self.in_all_ways(two_sided, "rstream", "-S", 4096, "-C", 1000, "-I", 1)


class BridgeConnectionTest(ConnectionManager, unittest.TestCase):
    lab_class = BridgeLab


class UdpConnectionTest(ConnectionManager, unittest.TestCase):
    lab_class = UdpLab


class VhostConnectionTest(ConnectionManager, unittest.TestCase):
    lab_class = VhostLab


if __name__ == "__main__":
    unittest.main()
