# SPDX-License-Identifier: Apache-2.0
"""Unreliable connections and datagrams: unmodified programs, and data checked by bytes. A receiver
that is behind loses what is sent to it, so no program sends more than its peer has posted."""
import unittest

from lab import LONG, VethLab, WireLab
from memif_lab import MemifLab
from programs import data_check, data_check_in_one_process, perftest, pingpong, seed

ITERATIONS = 100
DATA_OPS = 20000 if LONG else 1000
# What waits behind memory that must be copied is dropped beyond 256 packets.
CONNECTION = ("--service", "uc", "--max-bytes", 20000)
DATAGRAMS = ("--service", "ud")


class Services:
    """What works on every lab."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong(self):
        for service in ("uc", "ud"):
            for flags in (("-c",), ("-c", "-e")):
                with self.subTest(service, flags=flags):
                    pingpong(self.lab, *flags, "-n", ITERATIONS, service=service)

    def test_pingpong_over_ipv6(self):
        for service in ("uc", "ud"):
            with self.subTest(service):
                pingpong(self.lab, "-c", "-n", ITERATIONS, version=6, service=service)

    def test_programs(self):
        for tool, *flags in (("ib_send_bw", "-c", "UD"), ("ib_send_lat", "-c", "UD"),
                             ("ib_send_lat", "-c", "UD", "-s", 64, "-I", 64),
                             ("ib_send_bw", "-c", "UC", "-s", 4096),
                             ("ib_write_bw", "-c", "UC", "-s", 4096),
                             ("ib_write_lat", "-c", "UC")):
            with self.subTest(tool, flags=flags):
                perftest(self.lab, tool, "-n", ITERATIONS, *flags)

    def test_data_of_datagrams(self):
        for version in (4, 6):
            data_check(self.lab, *DATAGRAMS, "--seed", seed(), "--ops", DATA_OPS, version=version)

    def test_data_of_connections(self):
        for version in (4, 6):
            data_check(self.lab, *CONNECTION, "--seed", seed(), "--ops", DATA_OPS,
                       version=version)


class WireServicesTest(Services, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_data_in_one_program(self):
        for flags in (CONNECTION, DATAGRAMS):
            data_check_in_one_process(self.lab, *flags, "--seed", seed(), "--ops", DATA_OPS)

    def test_data_with_the_smallest_path_mtu(self):
        data_check(self.lab, *CONNECTION[:2], "--max-bytes", 2000, "--mtu", 256,
                   "--seed", seed(), "--ops", DATA_OPS)


class WireWorkersServicesTest(Services, unittest.TestCase):
    """With two workers, whichever owns a queue pair."""

    @staticmethod
    def make_lab():
        return WireLab("--workers", "2")

    def test_eight_queue_pairs(self):
        perftest(self.lab, "ib_send_bw", "-c", "UD", "-q", 8, "-n", 20, "-s", 1024)
        perftest(self.lab, "ib_write_bw", "-c", "UC", "-q", 8, "-n", 20, "-s", 4096)


class MemifServicesTest(Services, unittest.TestCase):
    @staticmethod
    def make_lab():
        return MemifLab()


class VethServicesTest(unittest.TestCase):
    """Beside the kernel: its neighbours are those of address handles."""

    @classmethod
    def setUpClass(cls):
        cls.lab = VethLab(9000)
        cls.addClassCleanup(cls.lab.close)

    def test_datagrams(self):
        for version in (4, 6):
            pingpong(self.lab, "-c", "-n", ITERATIONS, version=version, service="ud")
