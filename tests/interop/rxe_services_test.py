# SPDX-License-Identifier: Apache-2.0
"""Unreliable connections and datagrams, one side on rdma_rxe in the guest, the other on uroce;
either serves. Programs in which both sides wait for each other: rxe and the guest's socket buffers
lose what comes faster than they take it."""
import unittest

from labs.programs import perftest, pingpong, seed
from rxe_lab import BridgeLab, UdpLab, VhostLab, VhostTapLab, watched
from tally import counted_data_check

ITERATIONS = 300
DATA_OPS = 10000
LATENCY = (("ib_send_lat", "-c", "UD"), ("ib_send_lat", "-c", "UC"), ("ib_write_lat", "-c", "UC"))
# A round of messages fits the guest's buffers.
CONNECTION = ("--service", "uc", "--max-bytes", 6000)
DATAGRAMS = ("--service", "ud")


class Programs:
    """`lab_class` is that of the network."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.lab_class(9000)
        cls.addClassCleanup(cls.lab.close)

    def in_all_ways(self, run, *arguments, **options):
        for version in (4, 6):
            for server in self.lab.both_ways():
                with self.subTest(arguments, server=server, ip=version, **options):
                    run(self.lab, *arguments, version=version, **options)

    def test_pingpong(self):
        for service in ("uc", "ud"):
            self.in_all_ways(pingpong, "-c", "-n", ITERATIONS, service=service)

    def test_latency_programs(self):
        for tool, *flags in LATENCY:
            self.in_all_ways(perftest, tool, *flags, "-n", ITERATIONS)


class BridgeServiceProgramsTest(Programs, unittest.TestCase):
    lab_class = BridgeLab


class UdpServiceProgramsTest(Programs, unittest.TestCase):
    lab_class = UdpLab


class VhostServiceProgramsTest(Programs, unittest.TestCase):
    lab_class = VhostTapLab


class Data:
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.lab_class(9000)
        cls.addClassCleanup(cls.lab.close)

    def check(self, flags, version):
        # Which end is rxe's: it says nothing of the IP version in wc.sl.
        with watched(self.lab):
            counted_data_check(self.lab, *flags, "--seed", seed(), "--ops", DATA_OPS, "--rxe", 0,
                               "--deadline", 30, version=version, timeout_s=900)

    def test_datagrams(self):
        for version in (4, 6):
            with self.subTest(ip=version):
                self.check(DATAGRAMS, version)

    def test_connections(self):
        for version in (4, 6):
            with self.subTest(ip=version):
                self.check(CONNECTION, version)


class BridgeServiceDataTest(Data, unittest.TestCase):
    lab_class = BridgeLab


class UdpServiceDataTest(Data, unittest.TestCase):
    lab_class = UdpLab


class VhostServiceDataTest(Data, unittest.TestCase):
    lab_class = VhostLab
