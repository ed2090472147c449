# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs over the in-process wire and over a veth pair, and data checked by bytes."""
import unittest

from labs.lab import LONG, VethLab, WireLab
from labs.programs import data_check, data_check_in_one_process, perftest, pingpong, seed

ITERATIONS = 5000 if LONG else 300
DATA_OPS = 50000 if LONG else 2000


class Transfers:
    """What must work on every lab. `largest_mtu` is the path MTU that the link allows."""

    largest_mtu = 4096

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong(self):
        pingpong(self.lab, "-c")

    def test_pingpong_over_ipv6(self):
        pingpong(self.lab, "-c", version=6)

    def test_pingpong_sleeping_on_events(self):
        pingpong(self.lab, "-c", "-e")

    def test_pingpong_of_long_messages(self):
        pingpong(self.lab, "-c", "-s", 1048576, "-m", self.largest_mtu, "-n", 100)

    def test_bandwidth_programs(self):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS)

    def test_latency_programs(self):
        for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS)

    def test_compare_and_swap(self):
        perftest(self.lab, "ib_atomic_bw", "-n", ITERATIONS, "-A", "CMP_AND_SWAP")

    def test_bandwidth_over_ipv6(self):
        perftest(self.lab, "ib_write_bw", "-n", ITERATIONS, version=6)

    def test_eight_queue_pairs(self):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS, "-q", 8)

    def test_both_directions(self):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS, "-b")

    def test_programs_that_sleep_on_events(self):
        for tool in ("ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw",
                     "ib_atomic_lat"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS, "-e")

    def test_all_sizes(self):
        tools = ["ib_write_bw"]
        if LONG:
            tools += ["ib_send_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat"]
        for tool in tools:
            with self.subTest(tool):
                rows = perftest(self.lab, tool, "-a", "-n", 100 if LONG else 20, timeout_s=300)
                self.assertEqual(rows[-1][0], 8 << 20)

    def test_data_byte_for_byte_between_two_programs(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)

    def test_data_byte_for_byte_over_ipv6(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS // 4, version=6)

    def test_data_with_the_smallest_path_mtu(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS // 4, "--mtu", 256,
                   "--max-bytes", 60000)


class WireTransfersTest(Transfers, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_data_byte_for_byte_in_one_program(self):
        data_check_in_one_process(self.lab, "--seed", seed(), "--ops", DATA_OPS)


class Veth9000TransfersTest(Transfers, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VethLab(9000)


class Veth1500TransfersTest(Transfers, unittest.TestCase):
    largest_mtu = 1024

    @staticmethod
    def make_lab():
        return VethLab(1500)
