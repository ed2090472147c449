# SPDX-License-Identifier: Apache-2.0
"""Unreliable connections, datagrams, shared receive queues and extended connections (XRC):
unmodified programs, and data checked by bytes. A receiver that is behind loses what is sent to it:
no program sends more than is posted."""
import os
import tempfile
import unittest

from labs.capture import capturing, tshark
from labs.lab import BUILD, LONG, Lab, VethLab, WireLab
from labs.memif_lab import MemifLab
from labs.programs import (data_check, data_check_in_one_process, extended_pingpong, perftest,
                           pingpong, seed)

ITERATIONS = 100
DATA_OPS = 20000 if LONG else 600
# What waits behind memory that must be copied is dropped beyond 256 packets.
CONNECTION = ("--service", "uc", "--max-bytes", 20000)
DATAGRAMS = ("--service", "ud")


class Alone:
    """The one host of a lab, as both."""

    run_pair = Lab.run_pair
    exchange_root = None

    def __init__(self, lab):
        self.a = self.b = lab.a
        self.server_address = lab.server_address


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


class SharedReceives:
    """Of a shared receive queue, on every lab."""

    def test_shared_pingpong(self):
        for flags in ((), ("-e",)):
            with self.subTest(flags=flags):
                pingpong(self.lab, "-c", "-n", ITERATIONS, *flags, service="srq")

    def test_shared_programs(self):
        for flags in (("-q", 4), ("-q", 4, "-b"), ("-s", 65536)):
            with self.subTest(flags=flags):
                perftest(self.lab, "ib_send_bw", "--use-srq", "-n", ITERATIONS, *flags)
        perftest(self.lab, "ib_send_lat", "--use-srq", "-n", ITERATIONS)

    def test_what_queues_tell_of_themselves(self):
        output = self.lab.a.run(BUILD / "tests" / "e2e" / "queue_events", "-x",
                                self.lab.a.gid_index(), "-y", self.lab.b.gid_index())
        self.assertIn("every queue has told", output)

    def test_data_of_shared_queues(self):
        for service in ("rc", "uc", "ud"):
            with self.subTest(service):
                data_check(self.lab, "--srq", "--service", service, "--max-bytes", 20000,
                           "--seed", seed(), "--ops", DATA_OPS)


class ExtendedConnections:
    """XRC, on every lab."""

    def test_extended_pingpong(self):
        for flags in ((), ("-e",)):
            with self.subTest(flags=flags):
                extended_pingpong(self.lab, "-n", ITERATIONS, *flags)

    def test_extended_programs(self):
        for tool, *flags in (("ib_send_bw",), ("ib_send_bw", "-q", 4, "-b", "-s", 4096),
                             ("ib_write_bw", "-s", 4096), ("ib_read_bw", "-s", 4096),
                             ("ib_atomic_bw",), ("ib_send_lat",)):
            with self.subTest(tool, flags=flags):
                perftest(self.lab, tool, "-c", "XRC", "-n", ITERATIONS, *flags)

    def test_extended_data(self):
        for version in (4, 6):
            for flags in ((), ("--late-receives",)):
                with self.subTest(version=version, flags=flags):
                    data_check(self.lab, "--service", "xrc", "--max-bytes", 20000, *flags,
                               "--seed", seed(), "--ops", DATA_OPS // 2, version=version)

    def test_a_domain_of_several_programs(self):
        output = self.lab.a.run(BUILD / "tests" / "e2e" / "xrc_domain", "-x",
                                self.lab.a.gid_index(), "-y", self.lab.b.gid_index())
        self.assertIn("the target outlived its maker", output)


class WireServicesTest(Services, SharedReceives, ExtendedConnections, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_extended_latency_by_events(self):
        # It takes the next event for that of the queue it waits for, which holds with one worker.
        perftest(self.lab, "ib_send_lat", "-c", "XRC", "-n", ITERATIONS, "-e")

    def test_data_in_one_program(self):
        for flags in (CONNECTION, DATAGRAMS):
            data_check_in_one_process(self.lab, *flags, "--seed", seed(), "--ops", DATA_OPS)

    def test_one_device_with_itself(self):
        alone = Alone(self.lab)
        for service in ("uc", "ud"):
            pingpong(alone, "-c", "-n", ITERATIONS, service=service)
        data_check(alone, *DATAGRAMS, "--seed", seed(), "--ops", DATA_OPS)

    def test_data_with_the_smallest_path_mtu(self):
        data_check(self.lab, *CONNECTION[:2], "--max-bytes", 2000, "--mtu", 256,
                   "--seed", seed(), "--ops", DATA_OPS // 4)


class WireWorkersServicesTest(Services, SharedReceives, ExtendedConnections, unittest.TestCase):
    """With two workers, whichever owns a queue pair."""

    @staticmethod
    def make_lab():
        return WireLab("--workers", "2")

    def test_eight_queue_pairs(self):
        perftest(self.lab, "ib_send_bw", "-c", "UD", "-q", 8, "-n", 20, "-s", 1024)
        perftest(self.lab, "ib_write_bw", "-c", "UC", "-q", 8, "-n", 20, "-s", 4096)

    def test_flows_of_datagrams_have_their_own_ports(self):
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            path = os.path.join(directory, "flows.pcapng")
            with capturing(self.lab.a, path):
                perftest(self.lab, "ib_send_bw", "-c", "UD", "-q", 8, "-n", 20, "-s", 1024)
            rows = tshark(path, "-T", "fields", "-e", "infiniband.deth.srcqp",
                          "-e", "infiniband.bth.destqp", "-e", "udp.srcport")
        ports = {}
        for source, destination, port in map(str.split, rows.splitlines()):
            ports.setdefault((source, destination), set()).add(port)
        self.assertEqual(len(ports), 8)
        self.assertEqual({len(of_flow) for of_flow in ports.values()}, {1}, "one flow, one port")
        self.assertGreater(len(set.union(*ports.values())), 4)


class MemifServicesTest(Services, unittest.TestCase):
    test_programs = None

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

    def test_extended_connections(self):
        extended_pingpong(self.lab, "-n", ITERATIONS)
        data_check(self.lab, "--service", "xrc", "--max-bytes", 20000, "--seed", seed(),
                   "--ops", DATA_OPS // 2)
