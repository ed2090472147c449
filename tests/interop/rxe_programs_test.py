# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs, one side on rdma_rxe in the guest, the other on uroce; either serves."""
import unittest

from labs.programs import perftest, pingpong
from rxe_lab import READS_IN_FLIGHT, BridgeLab, UdpLab, VhostTapLab

ITERATIONS = 1000
OF_READS = ("-o", READS_IN_FLIGHT)
BANDWIDTH = {"ib_send_bw": (), "ib_write_bw": (), "ib_read_bw": OF_READS, "ib_atomic_bw": OF_READS}
LATENCY = {"ib_send_lat": (), "ib_write_lat": (), "ib_read_lat": OF_READS,
           "ib_atomic_lat": OF_READS}


class Programs:
    """`lab_class`, the MTU of its network, and the largest path MTU that this carries."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.lab_class(cls.mtu)
        cls.addClassCleanup(cls.lab.close)

    def in_all_ways(self, run, *arguments):
        """run(..., version=) over IPv4 and IPv6, with either side as server."""
        for version in (4, 6):
            for server in self.lab.both_ways():
                with self.subTest(arguments, server=server, ip=version):
                    run(self.lab, *arguments, version=version)

    def test_pingpong(self):
        self.in_all_ways(pingpong, "-c")

    def test_pingpong_of_long_messages(self):
        self.in_all_ways(pingpong, "-c", "-s", 1048576, "-m", self.largest_mtu, "-n", 100)

    def test_bandwidth_programs(self):
        for tool, flags in BANDWIDTH.items():
            self.in_all_ways(perftest, tool, "-n", ITERATIONS, *flags)

    def test_latency_programs(self):
        for tool, flags in LATENCY.items():
            self.in_all_ways(perftest, tool, "-n", ITERATIONS, *flags)

    def test_eight_queue_pairs(self):
        for server in self.lab.both_ways():
            for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
                with self.subTest(tool, server=server):
                    perftest(self.lab, tool, "-n", ITERATIONS, "-q", 8, *BANDWIDTH[tool])


class Bridge9000ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = BridgeLab, 9000, 4096


class Bridge1500ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = BridgeLab, 1500, 1024


class Udp9000ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = UdpLab, 9000, 4096


class Udp1500ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = UdpLab, 1500, 1024


class Vhost9000ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = VhostTapLab, 9000, 4096


class Vhost1500ProgramsTest(Programs, unittest.TestCase):
    lab_class, mtu, largest_mtu = VhostTapLab, 1500, 1024
